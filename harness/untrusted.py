"""The one encoder for text a candidate said, before it reaches a terminal, ledger, page or prompt."""

from __future__ import annotations

import hashlib

_KEEP = {"\n", "\t"}


def clean(text: str | bytes, limit: int = 4000) -> str:
    """Printable text: control, bidi, zero-width, odd space and unassigned characters become visible escapes.

    Longer than `limit` characters, the middle is cut and the cut is said.
    """
    text = _decoded(text, limit)
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n[... {len(text) - 2 * half} characters cut ...]\n{text[-half:]}"
    return "".join(char if _printable(char) else _escape(char) for char in text)


def fence(text: str | bytes, source: str, limit: int = 4000) -> str:
    """`clean` text for a prompt, between marks that it cannot contain: they carry a digest of the text itself.

    `source` says in a word or two where it comes from. A prompt that uses this tells its reader once that what stands
    between such marks is data and holds no instructions.
    """
    inside = clean(text, limit)
    mark = hashlib.sha256(inside.encode()).hexdigest()[:16]
    return f"[untrusted {mark}: {line(source, 40)}]\n{inside}\n[end of untrusted {mark}]"


def line(text: str | bytes, limit: int = 200) -> str:
    """`clean`, on one line; longer than `limit` characters, its middle becomes ` ... `."""
    text = _decoded(text, limit)
    if len(text) > limit:
        half = max(1, (limit - 5) // 2)
        text = f"{text[:half]} ... {text[-half:]}"
    return clean(text, len(text)).replace("\n", "\\n").replace("\t", " ")


def _decoded(text: str | bytes, limit: int) -> str:
    if isinstance(text, str):
        return text
    head = text[: 4 * limit + 4] if len(text) > 8 * limit else text
    return head.decode("utf-8", "backslashreplace")


def _printable(char: str) -> bool:
    return char in _KEEP or char.isprintable()


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
