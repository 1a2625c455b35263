"""Optimizers small enough for a test, and hosts that misbehave in one way each."""

from dataclasses import dataclass, field, replace

import anyio.lowlevel

from harness.errors import StropError
from harness.optimizer.base import Reply, Result
from harness.records import Status
from harness.streams import stream
from harness.testing.prompt_host import SimulatedHost

SMALL = {
    "ace": {"steps": 4, "batch": 6},
    "ape": {"proposals": 6, "ucb_rounds": 2, "arms": 4, "samples": 3, "resampled": 2},
    "apo": {"beam_rounds": 2, "beam_width": 2, "branch_factor": 2, "val_batch_size": 6, "paraphrases": 1},
    "bootstrap": {"sets": 3, "orders": 2},
    "gepa": {"iterations": 12, "merge_every": 4, "patience": 12},
    "mipro": {"trials": 6, "minibatch": 6, "full_every": 3, "instructions": 2, "demo_sets": 2},
    "opro": {"steps": 3, "proposals": 3, "examples": 8},
    "protegi": {"rounds": 2, "minibatch": 8, "ucb_rounds": 2, "arms": 4, "samples": 4},
    "textgrad": {"steps": 4, "minibatch": 6},
}


class PulledPlugError(StropError):
    """The process died here."""


@dataclass
class Mute(SimulatedHost):
    """A model that says nothing, or is cut off."""

    async def complete(self, role, request):
        await super().complete(role, request)
        return Reply(None, "length")


@dataclass
class Saying(SimulatedHost):
    """A model that always says the same."""

    text: str = ""

    async def complete(self, role, request):
        await super().complete(role, request)
        return Reply(self.text)


@dataclass
class Raising(SimulatedHost):
    """A task that raises on every example."""

    def rollout(self, texts, example, luck):
        return Result(example.key, Status.AGENT_ERROR, None, "it raised")


@dataclass
class Plugged(SimulatedHost):
    """Dies at the n-th evaluation or completion, after paying for it."""

    dies_at: int = 10**9
    calls: int = 0

    async def evaluate(self, texts, examples, tag="", within=None):
        found = await super().evaluate(texts, examples, tag, within)
        self._count()
        return found

    async def complete(self, role, request):
        reply = await super().complete(role, request)
        self._count()
        return reply

    def _count(self):
        self.calls += 1
        if self.calls == self.dies_at:
            raise PulledPlugError("pulled")


@dataclass
class Jittery(SimulatedHost):
    """Takes a different time for everything, in an order of its own."""

    jitter: int = 0

    async def evaluate(self, texts, examples, tag="", within=None):
        found = await super().evaluate(texts, examples, tag, within)
        for _ in range(int(stream(self.jitter, "jitter", tag, str(texts)).integers(6))):
            await anyio.lowlevel.checkpoint()
        return found


@dataclass
class Counting(SimulatedHost):
    """Counts the calls that are under way at once, evaluations and completions together."""

    now: int = 0
    most: int = 0

    async def evaluate(self, texts, examples, tag="", within=None):
        return await self._counted(super().evaluate(texts, examples, tag, within))

    async def complete(self, role, request):
        return await self._counted(super().complete(role, request))

    async def _counted(self, call):
        self.now += 1
        self.most = max(self.most, self.now)
        await anyio.lowlevel.checkpoint()
        self.now -= 1
        return await call


@dataclass
class Slotted(SimulatedHost):
    """Other slots than the world's own."""

    own: tuple = field(default=())

    @property
    def slots(self):
        return self.own or tuple(replace(slot, required=("kind",), engine="braces") for slot in super().slots)
