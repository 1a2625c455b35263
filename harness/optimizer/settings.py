"""Settings of an optimizer: strict, frozen, from the same names in TOML, YAML, flags and Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self, cast

from pydantic import AliasChoices, BaseModel, ConfigDict, ValidationError, field_validator

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
            if (other := cls._other(key)) in values:
                mend = f"leave out one of {key} and {other}"
                raise InputError(f"means {other}, which is given too", key=f"agent.config.{key}", mend=mend) from None
            names = ", ".join(sorted(cls.model_fields))
            raise InputError(first["msg"], key=f"agent.config.{key}", mend=f"keys here: {names}") from None

    @classmethod
    def _other(cls, key: str) -> str:
        """The name of the field that `key` is another name of; empty when it is none."""
        for name, field in cls.model_fields.items():
            if (
                isinstance(field.validation_alias, AliasChoices)
                and key in field.validation_alias.choices
                and key != name
            ):
                return name
        return ""
