"""Ed25519 signatures under a key of the user's own, made on first use outside every run and every box.

A public key is written `ed25519:` and 64 hex digits. `cryptography` does the arithmetic.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import InputError, IntegrityError, StorageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

CONFIG_VARIABLE = "STROP_CONFIG"
KEY_NAME = "archive.key"
PREFIX = "ed25519:"
_DIGITS, _SIGNATURE_DIGITS = 64, 128


def key_path() -> Path:
    """Where the user's key lies: below STROP_CONFIG, else XDG_CONFIG_HOME, else ~/.config."""
    given = os.environ.get(CONFIG_VARIABLE)
    if given:
        return Path(given) / KEY_NAME
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "strop" / KEY_NAME


def own_key() -> Ed25519PrivateKey:
    """The user's key, made now if there is none. Raises InputError for one that others can read, StorageError."""
    path = key_path()
    if not path.exists():
        _make(path)
    return _read(path)


def own_public_key() -> str | None:
    """The public key of a user who has one; makes none."""
    return public_text(_read(key_path())) if key_path().exists() else None


def public_text(key: Ed25519PrivateKey) -> str:
    """The public half, as text."""
    return PREFIX + key.public_key().public_bytes_raw().hex()


def sign(key: Ed25519PrivateKey, message: bytes) -> str:
    """The signature as 128 hex digits."""
    return key.sign(message).hex()


def check_signature(public: str, signature: str, message: bytes) -> None:
    """Raises IntegrityError unless `signature` is that of `message` under `public`."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  only where something is signed
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415  only there

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(_digits(public))).verify(_exact(signature), message)
    except (InvalidSignature, ValueError) as error:
        raise IntegrityError("the signature", expected=f"one by {public[:80]}", found="another") from error


def checked_key(text: str) -> str:
    """A public key as somebody typed it. Raises InputError."""
    try:
        return PREFIX + bytes.fromhex(_digits(text.strip())).hex()
    except ValueError as error:
        mend = "`strop archive key` prints it where the file was signed"
        raise InputError(f"{text[:80]!r} is no public key", file="--expect-key", mend=mend) from error


def _exact(signature: str) -> bytes:
    if len(signature) != _SIGNATURE_DIGITS or signature != signature.lower() or not signature.isalnum():
        raise ValueError("a signature is 128 small hex digits")
    return bytes.fromhex(signature)


def _digits(public: str) -> str:
    digits = public.removeprefix(PREFIX)
    if digits == public or len(digits) != _DIGITS:
        raise ValueError("a key is ed25519: and 64 hex digits")
    return digits


def _make(path: Path) -> None:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  only where something is signed
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415  only there

    text = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # somebody else made one in this moment: theirs it is
            os.link(draft, path)
    except OSError as error:
        raise StorageError(path, reason=error.strerror or str(error), mend=f"set {CONFIG_VARIABLE}") from error
    finally:
        draft.unlink(missing_ok=True)


def _read(path: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  only where something is signed
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415  only there

    try:
        about = path.stat()
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path, mend="fix its permissions") from error
    if stat.S_IMODE(about.st_mode) & 0o077:
        raise InputError("others can read this key", file=path, mend=f"chmod 600 {path}, or remove it for a new one")
    try:
        key = serialization.load_pem_private_key(data, None)
    except (ValueError, TypeError) as error:
        raise InputError("is no private key", file=path, mend="remove it for a new one") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError("is no Ed25519 key", file=path, mend="remove it for a new one")
    return key
