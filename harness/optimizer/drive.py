"""Run an optimizer on a host to its end: one durable JSON state a step, budgets are final."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from harness.errors import BudgetError, InputError
from harness.optimizer.base import Done, Host, Optimizer, State
from harness.optimizer.unfinished import watched
from harness.records import Json

Keep = Callable[[State], Awaitable[None]]


async def advance(optimizer: Optimizer, host: Host, config: Mapping[str, Json], state: State | None) -> State | Done:
    """One step on from `state` (None starts). Running out of budget is an end like any other; what the step it ended
    had measured is nominated too.

    The state passes through JSON, so a step can rest on nothing that a crash would lose.
    """
    told, watch = watched(host)
    try:
        after = await (optimizer.start(told, config) if state is None else optimizer.step(told, state))
    except BudgetError as error:
        if state is None and error.kind != "rollouts":
            raise  # a run that has models ends here, and opens its vault
        if state is None:
            raise InputError(
                f"the budget does not even cover the seed: {error.message}", key="budget", mend="allow more rollouts"
            ) from error
        return Done(state, spent(error), watch.nominees(optimizer.nominees(state)))
    return after if isinstance(after, Done) else cast("State", json.loads(json.dumps(after, allow_nan=False)))


def spent(error: BudgetError) -> str:
    """How a budget ended it, in words."""
    left = max(0.0, error.limit - error.used)
    if error.asked <= 1 or not left:
        return f"the budget is spent: no {error.kind} are left for it"
    return f"the budget is spent: its next step takes {error.asked:g} {error.kind}, and {left:g} are left for it"


async def optimize(
    optimizer: Optimizer,
    host: Host,
    config: Mapping[str, Json],
    *,
    state: State | None = None,
    keep: Keep | None = None,
) -> Done:
    """Step until done. `keep` makes each state durable; pass the last kept one as `state` to go on from there."""
    while True:
        after = await advance(optimizer, host, config, state)
        if isinstance(after, Done):
            return after
        state = after
        if keep is not None:
            await keep(state)
