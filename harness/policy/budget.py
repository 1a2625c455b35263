"""Hard budgets: reserved before, settled after, refused when the worst case does not fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from pydantic import Field

from harness.errors import BudgetError
from harness.policy.strict import Strict
from harness.records import Usage


class BudgetPolicy(Strict):
    """Hard limits: `steps` tickets, `rollouts` runs of the eval, `wall_s` seconds over all sessions.

    `requests`, `tokens_in`, `tokens_out` and `usd` bound what all model calls of the run may take together, proposers
    and evaluated agents alike; without one, that line is unlimited. Where the eval calls models, at least `vault_share`
    of each such line is kept for the vault, and more where the rollouts of root and best took more.
    """

    added: ClassVar[frozenset[str]] = frozenset({"requests", "tokens_in", "tokens_out", "usd", "vault_share"})

    steps: int = Field(default=60, ge=1)
    rollouts: int = Field(default=1000, ge=1)
    wall_s: float = Field(default=28_800.0, gt=0)
    requests: int | None = Field(default=None, ge=0)
    tokens_in: int | None = Field(default=None, ge=0)
    tokens_out: int | None = Field(default=None, ge=0)
    usd: float | None = Field(default=None, ge=0)
    vault_share: float = Field(default=0.05, ge=0, lt=1)


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
