"""Tokens without the upstream's word for them: a bound to reserve by, and an estimate to settle by.

Byte-level tokenizers never make more tokens than there are UTF-8 bytes, so the bytes of a request bound its tokens; the
JSON around each message is longer than the markers a chat template puts there. The estimate is one token for four
bytes, rounded up, the usual ratio for English text and code. A tokenizer of one vendor would be no truth about
another's, and its tables are fetched over the network; we need neither.
"""

from __future__ import annotations

BYTES_PER_TOKEN = 4


def bound(request: bytes) -> int:
    """The most tokens that `request` can be for an upstream."""
    return len(request)


def estimate(size: int) -> int:
    """About how many tokens `size` bytes of text are."""
    return -(-size // BYTES_PER_TOKEN)
