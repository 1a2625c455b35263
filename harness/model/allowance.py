"""The budget of all model calls of a run: the worst case is held before a call, what it took is settled after.

Every method is one step for the event loop's tasks, so no number of concurrent callers passes a limit together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.errors import BudgetError
from harness.model.pricing import NANO
from harness.policy.schema import BudgetPolicy
from harness.records import Spend, Usage


@dataclass
class Allowance:
    """Limits on requests, tokens in, tokens out and money; None is no limit.

    `used` is settled, `held` reserved: used + held never passes a limit. An upstream that gives more than it was asked
    for is counted in full (`overrun`), and everything after it is refused.
    """

    requests: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    nano_usd: int | None = None
    used: Spend = field(default_factory=Spend)
    held: Spend = field(default_factory=Spend)
    overrun: Spend = field(default_factory=Spend)
    by_role: dict[str, Spend] = field(default_factory=dict[str, Spend])

    @classmethod
    def of(cls, budget: BudgetPolicy) -> Allowance:
        """The model lines of a policy's budget."""
        nano = None if budget.usd is None else int(budget.usd * NANO)
        return cls(budget.requests, budget.tokens_in, budget.tokens_out, nano)

    def restore(self, spent: Iterable[tuple[str, Spend, Spend]]) -> None:
        """Take over what earlier sessions used: (role, settled, held). What was held and never settled counts in full:
        nobody knows whether an upstream billed it."""
        for role, settled, held in spent:
            self._count(role, settled + held)

    def reserve(self, worst: Spend) -> None:
        """Hold `worst`, all of it or nothing. Raises BudgetError naming the first line that it does not fit."""
        for kind, limit in self._limits():
            taken = getattr(self.used, kind) + getattr(self.held, kind)
            asked = getattr(worst, kind)
            if limit is not None and taken + asked > limit:
                scale, name = (NANO, "usd") if kind == "nano_usd" else (1, kind)
                raise BudgetError(name, limit=limit / scale, used=taken / scale, asked=asked / scale)
        self.held += worst

    def settle(self, role: str, worst: Spend, spent: Spend) -> None:
        """Turn what was held into what was taken."""
        self.held = _less(self.held, worst)
        self._count(role, spent)
        self.overrun += _over(spent, worst)

    def usage(self) -> dict[str, Usage]:
        """Every line, reservations left out; dollars for money."""
        lines = {kind: Usage(float(getattr(self.used, kind)), limit) for kind, limit in self._limits()}
        money = lines.pop("nano_usd")
        limit = None if money.limit is None else money.limit / NANO
        return {**lines, "usd": Usage(money.used / NANO, limit)}

    def _limits(self) -> tuple[tuple[str, int | None], ...]:
        return (
            ("requests", self.requests),
            ("tokens_in", self.tokens_in),
            ("tokens_out", self.tokens_out),
            ("nano_usd", self.nano_usd),
        )

    def _count(self, role: str, spent: Spend) -> None:
        self.used += spent
        self.by_role[role] = self.by_role.get(role, Spend()) + spent


def _less(whole: Spend, part: Spend) -> Spend:
    return Spend(
        whole.requests - part.requests,
        whole.tokens_in - part.tokens_in,
        whole.tokens_out - part.tokens_out,
        whole.nano_usd - part.nano_usd,
    )


def _over(spent: Spend, worst: Spend) -> Spend:
    over = _less(spent, worst)
    return Spend(max(0, over.requests), max(0, over.tokens_in), max(0, over.tokens_out), max(0, over.nano_usd))
