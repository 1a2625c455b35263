"""Boxes that are ready when they are asked for: the next one opens while one runs, and a scorer's is used again.

What is handed out is as fresh as what the back end opens: a box that ran a candidate is never handed out again. A box
asked for as `reusable` runs pinned code only; it comes back after a reset, and one whose reset failed, whose use
ended in an error or that was closed does not come back. A warm box comes back in the same way for its own
variant. One that died while it waited (an engine that restarted) is not handed out, so that no rollout pays for it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from typing import Literal

import anyio
from anyio.abc import TaskGroup

from harness.box.base import Box, Boxes, BoxSpec
from harness.box.live import LiveBox
from harness.errors import StropError


class _Slot:
    """One box and the task that holds its context open."""

    def __init__(self, spec: BoxSpec) -> None:
        self.spec = spec
        self.box: Box | None = None
        self.failure: StropError | None = None
        self.settled = anyio.Event()
        self.finished = anyio.Event()
        self.gone = anyio.Event()

    async def hold(self, boxes: Boxes) -> None:
        """Open the box, keep it until `finished`, close it."""
        try:
            async with boxes.open(self.spec) as box:
                self.box = box
                self.settled.set()
                await self.finished.wait()
        except StropError as error:
            self.failure = error
        finally:
            self.settled.set()
            self.gone.set()

    @property
    def died(self) -> bool:
        """Whether it opened and died since, by itself."""
        return isinstance(self.box, LiveBox) and self.box.ended

    async def end(self) -> None:
        """Kill everything in the box before this returns; its folders and groups go right after."""
        with anyio.CancelScope(shield=True):
            if isinstance(self.box, LiveBox):
                await self.box.close()
                self.finished.set()
            else:
                self.finished.set()
                await self.gone.wait()


class Pool:
    """Wraps a back end. Use as an async context: leaving it closes every box, also one that is opening.

    Holds at most as many opened boxes ahead of use as are in use, so at most twice the boxes of a run without it.
    """

    def __init__(self, boxes: Boxes) -> None:
        self._boxes = boxes
        self._group: TaskGroup | None = None
        self._ahead: dict[BoxSpec, deque[_Slot]] = defaultdict(deque)
        self._kept: dict[BoxSpec, list[_Slot]] = defaultdict(list)
        self._idle: dict[_Slot, BoxSpec] = {}  # warm boxes by the variant that ran in them, the longest idle first
        self._used: dict[BoxSpec, int] = defaultdict(int)
        self._closing = False

    @property
    def name(self) -> Literal["docker", "embedded", "process"]:
        return self._boxes.name

    @property
    def isolated(self) -> bool:
        return self._boxes.isolated

    async def prepare(self) -> None:
        await self._boxes.prepare()

    def enforcement(self) -> Mapping[str, str]:
        return self._boxes.enforcement()

    async def reap(self, owners: Sequence[str]) -> int:
        return await self._boxes.reap(owners)

    def open(self, spec: BoxSpec) -> AbstractAsyncContextManager[Box]:
        """As the back end's; a box opened ahead that failed is tried once more before its error is told."""
        if self._group is None or self._closing:
            return self._boxes.open(spec)
        if spec.gpus and not spec.reusable:
            return self._boxes.open(spec)  # one that waits would hold a device that another needs
        if spec.reusable:
            return self._lent(spec)
        return self._own(spec) if spec.variant else self._fresh(spec)

    async def __aenter__(self) -> Pool:
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *failure: object) -> None:
        assert self._group is not None
        self._closing = True
        for slots in (*self._ahead.values(), *self._kept.values(), self._idle):
            for slot in slots:
                slot.finished.set()
        self._group.cancel_scope.cancel()  # also what is opening; each box closes under its own shield
        group, self._group = self._group, None
        await group.__aexit__(None, None, None)  # what the body raised goes on as it is

    @asynccontextmanager
    async def _fresh(self, spec: BoxSpec) -> AsyncGenerator[Box]:
        self._used[spec] += 1
        slot = await self._taken(spec)
        try:
            yield _opened(slot)
        finally:
            self._used[spec] -= 1
            await slot.end()

    @asynccontextmanager
    async def _lent(self, spec: BoxSpec) -> AsyncGenerator[Box]:
        kept = self._kept[spec]
        while kept and kept[-1].died:
            await kept.pop().end()
        slot = kept.pop() if kept else await self._start(spec)
        async with self._returning(slot, lambda: kept.append(slot)) as box:
            yield box

    @asynccontextmanager
    async def _own(self, spec: BoxSpec) -> AsyncGenerator[Box]:
        """A box that this variant ran in before, or a fresh one; no more wait for their variant than are in use."""
        slot = next((idle for idle, known in self._idle.items() if known == spec), None)
        if slot is not None:
            del self._idle[slot]
        plain = replace(spec, variant="")
        self._used[plain] += 1
        try:
            if slot is not None and slot.died:
                await slot.end()
                slot = None
            slot = slot or await self._taken(plain)
            async with self._returning(slot, lambda: self._idle.__setitem__(slot, spec)) as box:
                yield box
        finally:
            while len(self._idle) > max(1, self._used[plain]):
                oldest = next(iter(self._idle))
                del self._idle[oldest]
                await oldest.end()
            self._used[plain] -= 1

    @asynccontextmanager
    async def _returning(self, slot: _Slot, keep: Callable[[], None]) -> AsyncGenerator[Box]:
        """The box of `slot`, kept afterwards when it could be emptied."""
        clean = False
        try:
            box = _opened(slot)
            yield box
            with suppress(StropError):  # what was done in it is done; only the box is lost
                await box.reset()
                clean = True
        finally:
            if clean and not self._closing:
                keep()
            else:
                await slot.end()

    async def _taken(self, spec: BoxSpec) -> _Slot:
        """A box that was opened ahead, or one that opens now; and the next is started."""
        ahead = self._ahead[spec]
        while ahead and ahead[0].died:
            await ahead.popleft().end()
        waiting = bool(ahead)
        slot = ahead.popleft() if waiting else self._begin(spec)
        if len(ahead) < self._used[spec]:
            ahead.append(self._begin(spec))
        await self._settled(slot)
        if waiting and (slot.failure is not None or slot.died):
            await slot.end()
            return await self._start(spec)
        return slot

    async def _start(self, spec: BoxSpec) -> _Slot:
        slot = self._begin(spec)
        await self._settled(slot)
        return slot

    def _begin(self, spec: BoxSpec) -> _Slot:
        assert self._group is not None
        slot = _Slot(spec)
        self._group.start_soon(slot.hold, self._boxes)
        return slot

    @staticmethod
    async def _settled(slot: _Slot) -> None:
        try:
            await slot.settled.wait()
        except BaseException:
            slot.finished.set()  # cancelled while it opened: nobody will use it
            raise


def _opened(slot: _Slot) -> Box:
    if slot.failure is not None:
        raise slot.failure
    assert slot.box is not None
    return slot.box
