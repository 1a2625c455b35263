"""Who a ticket changes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Drawn:
    """`promoted` is who is run through another stage beside it, `stage` how many it had run; nobody where it is empty.

    With `other` and their ancestor `base`, the parent and `other` are merged.
    """

    parent: str
    promoted: str = ""
    stage: int = 0
    other: str = ""
    base: str = ""
