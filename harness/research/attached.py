"""Boxes whose commands reach the run's models: the evaluated agents' calls go through the same gateway and budget."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Literal

from harness.box.base import Box, Boxes, BoxSpec
from harness.model.base import TASK, Caller
from harness.model.server import Server
from harness.records import RolloutKey

_caller: ContextVar[Caller | None] = ContextVar("caller", default=None)


def caller_of(key: RolloutKey) -> Caller:
    """On whose account the calls of one rollout go."""
    name = f"{key.tree[:12]}/{key.purpose}/{key.split}/{key.repeat}"
    return Caller(key.ticket, TASK, f"{name}/{key.example}" if key.example else name)


def current() -> Caller:
    """The rollout that is going on in this task."""
    caller = _caller.get()
    assert caller is not None, "no rollout is going on"
    return caller


@contextmanager
def calling(key: RolloutKey) -> Generator[Caller]:
    """Boxes opened in the block make their calls on the account of this rollout."""
    caller = caller_of(key)
    token = _caller.set(caller)
    try:
        yield caller
    finally:
        _caller.reset(token)


class AttachedBoxes:
    """A back end whose boxes have the gateway on loopback."""

    def __init__(self, inner: Boxes, server: Server) -> None:
        self._inner = inner
        self._server = server

    @property
    def name(self) -> Literal["docker", "embedded", "process"]:
        return self._inner.name

    @property
    def isolated(self) -> bool:
        return self._inner.isolated

    async def prepare(self) -> None:
        await self._inner.prepare()

    def open(self, spec: BoxSpec) -> AbstractAsyncContextManager[Box]:
        return self._open(spec)

    def enforcement(self) -> Mapping[str, str]:
        return self._inner.enforcement()

    async def reap(self, owners: Sequence[str]) -> int:
        return await self._inner.reap(owners)

    @asynccontextmanager
    async def _open(self, spec: BoxSpec) -> AsyncGenerator[Box]:
        caller = _caller.get()
        async with self._inner.open(spec) as box:
            if caller is not None:
                await box.attach(self._server.link(caller))
            yield box
