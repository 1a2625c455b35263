"""Every dialect the gateway speaks, found by path."""

from __future__ import annotations

from harness.model.base import Dialect
from harness.model.dialects.anthropic import Anthropic
from harness.model.dialects.chat import Chat
from harness.model.dialects.completions import Completions
from harness.model.dialects.embeddings import Embeddings
from harness.model.dialects.gemini import Gemini
from harness.model.dialects.gemini_embeddings import GeminiEmbeddings
from harness.model.dialects.responses import Responses

CHAT = Chat()
DIALECTS: tuple[Dialect, ...] = (
    CHAT,
    Responses(),
    Completions(),
    Embeddings(),
    GeminiEmbeddings(),
    Anthropic(),
    Gemini(),
)


def dialect_of(path: str) -> Dialect | None:
    """The dialect that a POST to `path` is in, or None."""
    return next((dialect for dialect in DIALECTS if dialect.speaks(path)), None)


def nearest(path: str) -> Dialect:
    """The dialect whose shape an error about `path` should have."""
    found = dialect_of(path)
    if found is not None:
        return found
    if "/v1beta" in path or ":" in path:
        return DIALECTS[-1]
    return DIALECTS[-2] if "/messages" in path else DIALECTS[0]
