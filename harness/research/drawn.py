"""Who a ticket changes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Drawn:
    """`stage` is how many stages the parent had run. With `other` and their ancestor `base`, the two are merged."""

    parent: str
    stage: int = 0
    other: str = ""
    base: str = ""
