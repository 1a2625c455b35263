"""Hard budgets: reserved before, settled after, refused when the worst case does not fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.errors import BudgetError
from harness.records import Usage


@dataclass
class Budget:
    """Counters with limits. One event loop owns it; every method is atomic with respect to its tasks.

    `used` is settled, `held` is reserved and not yet settled; used + held never passes the limit.
    """

    limits: Mapping[str, float]
    used: dict[str, float] = field(default_factory=dict[str, float])
    held: dict[str, float] = field(default_factory=dict[str, float])

    def reserve(self, kind: str, amount: float) -> None:
        """Hold `amount` more of `kind`. Raises BudgetError when it does not fit."""
        taken = self.used.get(kind, 0.0) + self.held.get(kind, 0.0)
        limit = self.limits.get(kind, math.inf)
        if taken + amount > limit:
            raise BudgetError(kind, limit=limit, used=taken, asked=amount)
        self.held[kind] = self.held.get(kind, 0.0) + amount

    def settle(self, kind: str, reserved: float, spent: float) -> None:
        """Turn a reservation into what was really spent; the rest is free again."""
        if spent > reserved:
            raise ValueError(f"{spent:g} {kind} spent under a reservation of {reserved:g}")
        self.held[kind] = self.held.get(kind, 0.0) - reserved
        self.used[kind] = self.used.get(kind, 0.0) + spent

    def fits(self, kind: str, amount: float) -> bool:
        """Whether `reserve` would succeed now."""
        taken = self.used.get(kind, 0.0) + self.held.get(kind, 0.0)
        return taken + amount <= self.limits.get(kind, math.inf)

    def usage(self) -> dict[str, Usage]:
        """Every budget line, reservations left out."""
        return {kind: Usage(self.used.get(kind, 0.0), limit) for kind, limit in self.limits.items()}
