"""What a command line and an environment can hold at all."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field


def _passable(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL, which no command can be given")
    return text


def _env_name(text: str) -> str:
    if not text or "=" in text:
        raise ValueError(f"{text!r} is no name of an environment variable")
    return _passable(text)


Word = Annotated[str, AfterValidator(_passable)]
EnvName = Annotated[str, AfterValidator(_env_name)]
Argv = Annotated[tuple[Word, ...], Field(min_length=1)]
