"""Which slots and examples a step works on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from harness.errors import InputError
from harness.optimizer.base import Slot, Texts

T = TypeVar("T")


class HasSlots(Protocol):
    """A host, or what a run is going to give one."""

    @property
    def slots(self) -> Sequence[Slot]:
        """The declared slots."""
        ...


def editable(host: HasSlots) -> list[Slot]:
    """Text slots that may change, in order. Raises InputError when there is none."""
    found = [slot for slot in host.slots if slot.kind == "text" and not slot.frozen]
    if not found:
        raise InputError("no slot may be edited", mend="declare a text slot that is not frozen")
    return found


def known_slots(host: HasSlots, names: Sequence[str], key: str, among: Sequence[Slot] = ()) -> None:
    """Raise InputError for a name in `agent.config.<key>` that no editable text slot has, or none of `among`."""
    there = [slot.name for slot in among or editable(host)]
    for name in names:
        if name and name not in there:
            mend = f"one of {', '.join(there)}"
            raise InputError(f"no slot is called {name!r}", key=f"agent.config.{key}", mend=mend)


def demo_slot(host: HasSlots) -> Slot | None:
    """The slot that holds worked examples, if there is one."""
    return next((slot for slot in host.slots if slot.kind == "demos" and not slot.frozen), None)


def seed_texts(host: HasSlots) -> Texts:
    """The seed candidate."""
    return {slot.name: slot.text for slot in host.slots}


def sample(rng: np.random.Generator, items: Sequence[T], count: int) -> list[T]:
    """`count` different items, or all of them when there are no more."""
    chosen = rng.choice(len(items), size=min(count, len(items)), replace=False)
    return [items[int(n)] for n in chosen]


def demos(texts: Mapping[str, str], slot: Slot) -> list[dict[str, Any]]:
    """The worked examples a candidate holds."""
    return cast("list[dict[str, Any]]", json.loads(texts[slot.name] or "[]"))
