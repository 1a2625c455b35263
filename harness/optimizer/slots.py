"""Which slots and examples a step works on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from harness.errors import InputError
from harness.optimizer.base import Host, Slot, Texts

T = TypeVar("T")


def editable(host: Host) -> list[Slot]:
    """Text slots that may change, in order. Raises InputError when there is none."""
    found = [slot for slot in host.slots if slot.kind == "text" and not slot.frozen]
    if not found:
        raise InputError("no slot may be edited", mend="declare a text slot that is not frozen")
    return found


def demo_slot(host: Host) -> Slot | None:
    """The slot that holds worked examples, if there is one."""
    return next((slot for slot in host.slots if slot.kind == "demos" and not slot.frozen), None)


def seed_texts(host: Host) -> Texts:
    """The seed candidate."""
    return {slot.name: slot.text for slot in host.slots}


def sample(rng: np.random.Generator, items: Sequence[T], count: int) -> list[T]:
    """`count` different items, or all of them when there are no more."""
    chosen = rng.choice(len(items), size=min(count, len(items)), replace=False)
    return [items[int(n)] for n in chosen]


def demos(texts: Mapping[str, str], slot: Slot) -> list[dict[str, Any]]:
    """The worked examples a candidate holds."""
    return cast("list[dict[str, Any]]", json.loads(texts[slot.name] or "[]"))
