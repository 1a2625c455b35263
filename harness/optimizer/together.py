"""Run calls of one step concurrently; results in the order asked, whatever finishes first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast

import anyio

from harness.errors import StropError

T = TypeVar("T")


async def together(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Await every call; if one raises, the others are cancelled and its own error is raised, not a group."""
    results: dict[int, T] = {}

    async def one(number: int, call: Callable[[], Awaitable[T]]) -> None:
        results[number] = await call()

    try:
        async with anyio.create_task_group() as group:
            for number, call in enumerate(calls):
                group.start_soon(one, number, call)
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    return [results[number] for number in range(len(calls))]


def _first(error: BaseException) -> BaseException:
    leaves = _leaves(error)
    return next((leaf for leaf in leaves if isinstance(leaf, StropError)), leaves[0])


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    group = cast("BaseExceptionGroup[BaseException]", error)
    return [leaf for inner in group.exceptions for leaf in _leaves(inner)]
