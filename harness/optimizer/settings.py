"""Settings of an optimizer: strict, frozen, from the same names in TOML, YAML, flags and Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self, cast

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from harness.errors import InputError
from harness.records import Json


class Settings(BaseModel):
    """Base of every optimizer's settings: an unknown key is an error, text is no number, true is no 1."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, strict=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _fixed(cls, value: object) -> object:
        return tuple(cast("list[object]", value)) if isinstance(value, list) else value

    @classmethod
    def read(cls, values: Mapping[str, Json]) -> Self:
        """The settings in `values`. Raises InputError that names the key and lists those there are."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            key = ".".join(str(part) for part in first["loc"])
            names = ", ".join(sorted(cls.model_fields))
            raise InputError(first["msg"], key=f"agent.config.{key}", mend=f"keys here: {names}") from None
