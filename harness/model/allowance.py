"""The budget of all model calls of a run: the worst case is held before a call, what it took is settled after.

Every method is one step for the event loop's tasks, so no number of concurrent callers passes a limit together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import anyio

from harness.errors import BudgetError
from harness.model.base import Caller
from harness.model.pricing import NANO
from harness.policy.schema import BudgetPolicy
from harness.records import ModelCall, Spend, Usage

NOTHING = Spend()


class Keeps(Protocol):
    """Who may not have all of a budget: what a caller has to leave, and whether a refusal says that it is spent."""

    def of(self, caller: Caller) -> Spend:
        """What must stay free when `caller` is served."""
        ...

    def ends(self, caller: Caller, error: BudgetError) -> bool:
        """Whether this refusal means that the budget is spent, and not that the call was out of all proportion."""
        ...


class KeepsNothing:
    """Whoever comes may have what is left."""

    def of(self, caller: Caller) -> Spend:
        """See `Keeps`."""
        return NOTHING

    def ends(self, caller: Caller, error: BudgetError) -> bool:
        """See `Keeps`."""
        return True


@dataclass(frozen=True, slots=True)
class Taken:
    """What the calls of one maker took together, and the most that one of them was held at."""

    spent: Spend = NOTHING
    largest: Spend = NOTHING


@dataclass
class Allowance:
    """Limits on requests, tokens in, tokens out and money; None is no limit.

    `used` is settled, `held` reserved: used + held never passes a limit. An upstream that gives more than it was asked
    for is counted in full (`overrun`), and everything after it is refused. `by_maker` is known by (role, variant).
    """

    requests: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    nano_usd: int | None = None
    used: Spend = field(default_factory=Spend)
    held: Spend = field(default_factory=Spend)
    overrun: Spend = field(default_factory=Spend)
    by_role: dict[str, Spend] = field(default_factory=dict[str, Spend])
    by_maker: dict[tuple[str, str], Taken] = field(default_factory=dict[tuple[str, str], Taken])
    _settled: anyio.Event = field(default_factory=anyio.Event)

    @classmethod
    def of(cls, budget: BudgetPolicy) -> Allowance:
        """The model lines of a policy's budget."""
        nano = None if budget.usd is None else int(budget.usd * NANO)
        return cls(budget.requests, budget.tokens_in, budget.tokens_out, nano)

    def restore(self, calls: Iterable[ModelCall]) -> None:
        """Take over what earlier sessions used. What was held and never settled counts in full: nobody knows whether an
        upstream billed it."""
        for call in calls:
            self._count(Caller(call.ticket, call.role, call.variant), NOTHING, call.spent + call.held)

    def reserve(self, worst: Spend, kept: Spend = NOTHING) -> None:
        """Hold `worst`, all of it or nothing, and leave `kept` free. Raises BudgetError naming the first line that it
        does not fit."""
        if (error := self._short(self.used + self.held, worst, kept)) is not None:
            raise error
        self.held += worst

    async def hold(self, worst: Spend, kept: Callable[[], Spend]) -> None:
        """`reserve` once it fits: what fails only for what others hold waits for them. Raises BudgetError."""
        while self._short(self.used + self.held, worst, kept()) is not None:
            if (error := self._short(self.used, worst, kept())) is not None:
                raise error
            await self._settled.wait()
        self.held += worst

    def settle(self, caller: Caller, worst: Spend, spent: Spend) -> None:
        """Turn what was held into what was taken."""
        self.held = _less(self.held, worst)
        self._count(caller, worst, spent)
        self.overrun += _over(spent, worst)
        self._settled.set()
        self._settled = anyio.Event()

    def usage(self) -> dict[str, Usage]:
        """Every line, reservations left out; dollars for money."""
        lines = {kind: Usage(float(getattr(self.used, kind)), limit) for kind, limit in self._limits()}
        money = lines.pop("nano_usd")
        limit = None if money.limit is None else money.limit / NANO
        return {**lines, "usd": Usage(money.used / NANO, limit)}

    def left(self, kind: str, kept: Spend = NOTHING) -> int | None:
        """What may still be reserved of a line by who leaves `kept` free; None is no limit."""
        limit, taken = dict(self._limits())[kind], self.used + self.held + kept
        return None if limit is None else max(0, limit - getattr(taken, kind))

    def _limits(self) -> tuple[tuple[str, int | None], ...]:
        return (
            ("requests", self.requests),
            ("tokens_in", self.tokens_in),
            ("tokens_out", self.tokens_out),
            ("nano_usd", self.nano_usd),
        )

    def _short(self, taken: Spend, worst: Spend, kept: Spend) -> BudgetError | None:
        for kind, limit in self._limits():
            used, asked, left = (getattr(one, kind) for one in (taken, worst, kept))
            if limit is not None and used + asked + left > limit:
                scale, name = (NANO, "usd") if kind == "nano_usd" else (1, kind)
                return BudgetError(name, limit=limit / scale, used=used / scale, asked=asked / scale, kept=left / scale)
        return None

    def _count(self, caller: Caller, worst: Spend, spent: Spend) -> None:
        self.used += spent
        self.by_role[caller.role] = self.by_role.get(caller.role, NOTHING) + spent
        before = self.by_maker.get((caller.role, caller.variant), Taken())
        self.by_maker[caller.role, caller.variant] = Taken(before.spent + spent, most(before.largest, worst))


def most(one: Spend, other: Spend) -> Spend:
    """The larger of each amount."""
    return Spend(
        max(one.requests, other.requests),
        max(one.tokens_in, other.tokens_in),
        max(one.tokens_out, other.tokens_out),
        max(one.nano_usd, other.nano_usd),
    )


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
