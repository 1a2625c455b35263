"""What a command line, an environment and an address can hold at all, and what must not be in them."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field


def _passable(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL, which no command can be given")
    return text


def _env_name(text: str) -> str:
    if not text or "=" in text:
        raise ValueError(f"{text!r} is no name of an environment variable")
    return _passable(text)


def _endpoint(text: str) -> str:
    try:
        parts = urlsplit(text)
    except ValueError:
        raise ValueError("is no http:// or https:// address") from None
    if not parts.hostname or parts.scheme not in {"http", "https"} or re.search(r"\s", text):
        raise ValueError("is no http:// or https:// address")
    if parts.username is not None or parts.query or parts.fragment:
        # a policy is written into every run; a secret in an address would be too
        raise ValueError("holds a name, a password or a query: keep the key in a variable and name it in api_key_env")
    return text


def _key_name(text: str) -> str:
    if text and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise ValueError("is no name of an environment variable")
    mixed = re.search(r"[a-z]", text) and re.search(r"[A-Z]", text) and re.search(r"[0-9]", text)
    if re.match(r"(AIza|sk_|gsk_|hf_|ghp_|xai_|pk_)", text) or (mixed and len(text) > _LONGEST_NAME):
        raise ValueError("looks like a key itself: put the key into an environment variable and name that variable")
    return text


_LONGEST_NAME = 24
Endpoint = Annotated[str, AfterValidator(_endpoint)]
KeyName = Annotated[str, AfterValidator(_key_name)]
Word = Annotated[str, AfterValidator(_passable)]
EnvName = Annotated[str, AfterValidator(_env_name)]
Argv = Annotated[tuple[Word, ...], Field(min_length=1)]
