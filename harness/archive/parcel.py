"""One file that holds a whole archive: a signed header, and a payload that the header names by its digest.

    strop archive
    {"bytes": ..., "hash": ..., "seal": ..., "seq": ..., "sha256": ..., "key": ..., "format": 1, ...}
    SIGNATURE
    zlib(payload)

The signature (Ed25519, hex) covers the first two lines as they stand, and so everything: no bit of the file can change
unnoticed. The payload is read only after all of that was checked.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from harness.archive.ledger import canonical
from harness.archive.signing import check_signature, own_key, public_text, sign
from harness.errors import InputError, IntegrityError, StorageError
from harness.records import Json

MAGIC = b"strop archive\n"
FORMAT = 1
_HEADER_MOST = 64 * 1024
_LINE_MOST = 256 * 2**20
_CHUNK = 1 << 16
_STRANGE = 4

Sink = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Parcel:
    """A file whose signature and digest hold. `header` is signed; `start` is where the payload begins."""

    path: Path
    header: Mapping[str, Json]
    start: int

    @property
    def key(self) -> str:
        """Who signed it."""
        return str(self.header["key"])

    def reader(self) -> Reader:
        """The payload from its beginning; close it."""
        file = self.path.open("rb")
        file.seek(self.start)
        return Reader(file)


def write_parcel(path: Path, fill: Callable[[Sink], Mapping[str, Json]]) -> Mapping[str, Json]:
    """A new signed file at `path`. `fill` writes the payload and says what the header is to tell; the header.

    Raises InputError when there is a file already, StorageError.
    """
    key = own_key()
    body, whole = (path.with_name(f".{path.name}.{os.getpid()}.{part}") for part in ("body", "whole"))
    try:
        if path.exists():
            raise InputError("is there already", file=path, mend="name a file that does not exist yet")
        with body.open("xb") as file:
            packer = _Packer(file)
            about = fill(packer.write)
            digest, size = packer.end()
        header: dict[str, Json] = {**about, "format": FORMAT, "key": public_text(key), "sha256": digest, "bytes": size}
        signed = MAGIC + canonical(header).encode() + b"\n"
        with whole.open("xb") as file, body.open("rb") as packed:
            file.write(signed + sign(key, signed).encode() + b"\n")
            while chunk := packed.read(_CHUNK):
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        os.link(whole, path)
    except FileExistsError:
        raise InputError("is there already", file=path, mend="name a file that does not exist yet") from None
    except OSError as error:
        raise StorageError(path, reason=error.strerror or str(error), mend="free space or name another file") from error
    finally:
        body.unlink(missing_ok=True)
        whole.unlink(missing_ok=True)
    return header


def read_parcel(path: Path) -> Parcel:
    """The file at `path`, its signature and its payload's digest checked.

    Raises InputError when it is no such file, IntegrityError when a single bit of it is not what was signed.
    """
    try:
        with path.open("rb") as file:
            return _read(path, file)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path, mend="name an exported archive") from error


def _read(path: Path, file: IO[bytes]) -> Parcel:
    magic = file.read(len(MAGIC))
    strange = sum(one != other for one, other in zip(magic, MAGIC, strict=False)) + len(MAGIC) - len(magic)
    if strange > _STRANGE:
        raise InputError("is no exported archive", file=path, mend="make one with: strop archive export RUN FILE")
    if strange:
        raise IntegrityError("the file's first line", expected=repr(MAGIC), found=repr(magic))
    head, signature = file.readline(_HEADER_MOST), file.readline(_HEADER_MOST)
    header = _header(head)
    check_signature(str(header.get("key")), signature.decode("ascii", "replace").removesuffix("\n"), magic + head)
    if header.get("format") != FORMAT:
        mend = "use a newer strop for it"
        raise InputError(f"has format {header.get('format')}, this version reads {FORMAT}", file=path, mend=mend)
    start = file.tell()
    digest, size = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
    if size != header.get("bytes"):
        raise IntegrityError("the file's payload", expected=f"{header.get('bytes')} bytes as signed", found=f"{size}")
    if digest.hexdigest() != header.get("sha256"):
        raise IntegrityError("the file's payload", expected=f"{header.get('sha256')}", found=digest.hexdigest())
    if not signature.endswith(b"\n"):
        raise IntegrityError("the file's third line", expected="its end", found="none")
    return Parcel(path, header, start)


def _header(line: bytes) -> dict[str, Json]:
    try:
        found: Any = json.loads(line)
        if isinstance(found, dict) and canonical(cast("object", found)).encode() + b"\n" == line:
            return cast("dict[str, Json]", found)
    except (ValueError, TypeError, RecursionError):
        pass
    raise IntegrityError("the file's header", expected="what was signed", found=repr(line[:80]))


@dataclass
class _Packer:
    """Compresses on the way to a file, and digests what it writes."""

    file: IO[bytes]
    _deflate: Any = field(default_factory=lambda: zlib.compressobj(6))
    _digest: Any = field(default_factory=hashlib.sha256)
    _size: int = 0

    def write(self, data: bytes) -> None:
        self._put(self._deflate.compress(data))

    def end(self) -> tuple[str, int]:
        """(digest, size) of all that was written."""
        self._put(self._deflate.flush())
        return self._digest.hexdigest(), self._size

    def _put(self, data: bytes) -> None:
        self.file.write(data)
        self._digest.update(data)
        self._size += len(data)


@dataclass
class Reader:
    """Lines and counted bytes out of a payload. Whatever does not fit is an IntegrityError."""

    file: IO[bytes]
    _inflate: Any = field(default_factory=zlib.decompressobj)
    _held: bytearray = field(default_factory=bytearray)

    def close(self) -> None:
        """Let the file go."""
        self.file.close()

    def lines(self) -> Iterator[Any]:
        """Every JSON line. Counted bytes that follow one are taken with `take` before the next."""
        while True:
            end = self._held.find(b"\n")
            while end < 0:
                seen = len(self._held)
                if seen > _LINE_MOST:
                    raise IntegrityError("the payload", expected="lines", found=f"{seen} bytes without an end")
                if not self._more():
                    if self._held:
                        raise IntegrityError("the payload", expected="whole lines", found="a torn one")
                    return
                end = self._held.find(b"\n", seen)
            line = bytes(self._held[:end])
            del self._held[: end + 1]
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                raise IntegrityError("the payload", expected="JSON", found=repr(line[:80])) from error

    def take(self, size: object) -> bytes:
        """The next `size` bytes."""
        if not isinstance(size, int) or not 0 <= size <= _LINE_MOST:
            raise IntegrityError("the payload", expected="a size", found=repr(size)[:80])
        while len(self._held) < size:
            if not self._more():
                raise IntegrityError("the payload", expected=f"{size} bytes", found=f"{len(self._held)}")
        data = bytes(self._held[:size])
        del self._held[:size]
        return data

    def _more(self) -> bool:
        """Inflate a little more, a bounded piece at a time; False at the end."""
        try:
            while not self._inflate.eof:
                packed = self._inflate.unconsumed_tail or self.file.read(_CHUNK)
                if not packed:
                    raise IntegrityError("the payload", expected="its end", found="none")
                found = self._inflate.decompress(packed, 1 << 20)
                if found:
                    self._held += found
                    return True
        except zlib.error as error:
            raise IntegrityError("the payload", expected="packed data", found=str(error)) from error
        return False
