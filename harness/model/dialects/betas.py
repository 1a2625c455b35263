"""Which of Anthropic's beta features a box may ask for: those that cannot make a request cost more.

Others are left out, as their fields are: a longer context or a faster mode at a higher price, tools that the server
runs, files and memories it keeps, caches that last longer than is priced.
"""

from __future__ import annotations

import re

_HARMLESS = re.compile(
    r"(interleaved-thinking|fine-grained-tool-streaming|token-efficient-tools|structured-outputs|prompt-caching"
    r"|prompt-caching-scope|redact-thinking|effort|output-128k|max-tokens-3-5-sonnet|computer-use|claude-code)"
    r"-(\d{4}-\d{2}-\d{2}|\d{8})"
)
_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}")
VERSION = "2023-06-01"


def harmless(header: str) -> str:
    """What goes on of an `anthropic-beta` header; "" for nothing."""
    asked = dict.fromkeys(one.strip() for one in header.split(","))
    return ",".join(one for one in asked if _HARMLESS.fullmatch(one))


def version(header: str) -> str:
    """What goes on of an `anthropic-version` header."""
    return header if _VERSION.fullmatch(header) else VERSION
