"""A table of TOML in which an unknown key is an error."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer


class Strict(BaseModel):
    """A table without unknown keys.

    Keys in `added` came after the ledger's first format: they are left out of a dump while they have their default,
    so that a run that does not use them has the ledger it always had.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    added: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _used_only(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        whole: dict[str, object] = handler(self)
        fields = type(self).model_fields
        unused = {key for key in self.added if getattr(self, key) == fields[key].get_default(call_default_factory=True)}
        return {key: value for key, value in whole.items() if key not in unused}
