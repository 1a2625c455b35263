"""A hosted library that prints, kept off the run's own output: what this thread writes meanwhile is dropped."""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO, cast


class _Elsewhere:
    """A stream that has no ear for one thread."""

    def __init__(self, inner: TextIO, thread: int) -> None:
        self._inner, self._thread = inner, thread

    def write(self, text: str) -> int:
        return len(text) if threading.get_ident() == self._thread else self._inner.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@contextmanager
def quiet() -> Generator[None]:
    """Drop what this thread prints; every other thread prints as before."""
    before = sys.stdout, sys.stderr
    mine = threading.get_ident()
    sys.stdout, sys.stderr = (cast("TextIO", _Elsewhere(stream, mine)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
