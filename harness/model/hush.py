"""The general HTTP client, kept from telling logs what upstreams say: at level DEBUG it logs whole heads of answers,
and with them a key that an upstream repeats. What else in the process uses that client logs as before."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_LOGGERS = ("httpx2", *(f"httpcore2.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")))
_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


def _loud(record: logging.LogRecord) -> bool:
    return not _quiet.get()


@contextmanager
def quietly() -> Generator[None]:
    """Nothing that the client does in here is logged."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_loud)  # once, however often it is added
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)
