"""Run calls of one step concurrently; results in the order asked, whatever finishes first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast

import anyio

from harness.errors import BudgetError, StropError

T = TypeVar("T")


async def together(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Await every call; if one raises, the others are cancelled and its own error is raised, not a group.

    A call that the budget refuses cancels nobody: what was paid for before it is finished, so that what a step ran
    before it ended does not depend on timing.
    """
    results: dict[int, T] = {}
    refused: dict[int, BudgetError] = {}

    async def one(number: int, call: Callable[[], Awaitable[T]]) -> None:
        try:
            results[number] = await call()
        except BudgetError as error:
            refused[number] = error

    try:
        async with anyio.create_task_group() as group:
            for number, call in enumerate(calls):
                group.start_soon(one, number, call)
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    if refused:
        raise refused[min(refused)]
    return [results[number] for number in range(len(calls))]


def _first(error: BaseException) -> BaseException:
    leaves = _leaves(error)
    return next((leaf for leaf in leaves if isinstance(leaf, StropError)), leaves[0])


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    group = cast("BaseExceptionGroup[BaseException]", error)
    return [leaf for inner in group.exceptions for leaf in _leaves(inner)]
