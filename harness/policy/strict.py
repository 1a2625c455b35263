"""A table of TOML in which an unknown key is an error, and nothing is taken for what it is not."""

from __future__ import annotations

from typing import ClassVar, cast

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, field_validator, model_serializer


class Strict(BaseModel):
    """A table without unknown keys.

    Text is no number, true is no 1, and every number is finite: a run has to write it down.

    Keys in `added` came after the ledger's first format: they are left out of a dump while they have their default,
    so that a run that does not use them has the ledger it always had.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
    added: ClassVar[frozenset[str]] = frozenset()

    @field_validator("*", mode="before")
    @classmethod
    def _fixed(cls, value: object) -> object:
        return tuple(cast("list[object]", value)) if isinstance(value, list) else value

    @model_serializer(mode="wrap")
    def _used_only(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        whole: dict[str, object] = handler(self)
        fields = type(self).model_fields
        unused = {key for key in self.added if getattr(self, key) == fields[key].get_default(call_default_factory=True)}
        return {key: value for key, value in whole.items() if key not in unused}
