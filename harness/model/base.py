"""The nouns of the gateway: who calls, what is asked, what a reply says it took, and where calls are written down."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.model.tokens import Said
from harness.records import Json, ModelCall, Reply, Spend

PING = "Answer with the one word: ready"
PROPOSER, TASK, JUDGE, OPTIMIZER = "proposer", "task", "judge", "optimizer"
# in the place of a variant: the client of a library that a run hosts
HOSTED = "hosted"


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose account a call goes: the ticket, the role it plays in it, and the variant it is made by or for."""

    ticket: int
    role: str = PROPOSER
    variant: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """What a call waits for: why its upstream does not answer, since when (monotonic, in seconds), for how long at
    most."""

    reason: str
    since: float
    patience_s: float


@dataclass(frozen=True, slots=True)
class Seen:
    """A call that has ended, as a watcher is told of it: neither what was asked nor what was said.

    `model` is the upstream's name for it; `began_ns` is the wall clock in nanoseconds; `error` is "" for an answer.
    """

    caller: Caller
    model: str
    base_url: str
    dialect: str
    most_out: int
    began_ns: int
    spent: Spend
    cached_in: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as its dialect reads it: `body` already holds the cap that makes `most_out` tokens the most it can
    give; `dropped_usage` says that we, not the caller, asked for usage in the stream; `more_in` is what
    it may take in beyond a token a byte."""

    stream: bool
    body: Mapping[str, Json]
    most_out: int
    dropped_usage: bool = False
    more_in: int = 0


@dataclass(frozen=True, slots=True)
class Counted:
    """What a reply itself says it took; None where it does not say. `tokens_in` includes what the upstream's cache gave
    (`cached_in`) and took (`written_in`)."""

    tokens_in: int | None = None
    tokens_out: int | None = None
    cached_in: int = 0
    written_in: int = 0


class Tally(Protocol):
    """Reads one reply of a dialect, whole or event by event."""

    counted: Counted
    text: Said
    """What the model said, for an estimate."""
    last: bool
    """Whether `counted` is the last word of a stream: what is cut off behind it costs nothing more."""
    finished: bool
    """Whether the reply came to its own end."""

    def take(self, event: Mapping[str, Json]) -> None:
        """Read a whole reply, or the next event of a stream."""
        ...


class Dialect(Protocol):
    """One way of asking a model over HTTP. `writes` is whether it is answered with text, and not with vectors."""

    name: str
    writes: bool

    def speaks(self, path: str) -> bool:
        """Whether a POST to `path` is in this dialect."""
        ...

    def asks_for(self, path: str, body: Mapping[str, Json]) -> str:
        """The model named in a request. Raises ValueError when there is none."""
        ...

    def read(self, path: str, body: Mapping[str, Json], *, cap: int) -> Asked:
        """What is asked, with the reply capped at `cap` tokens. Raises ValueError that says what is wrong."""
        ...

    def upstream(self, path: str, model: str) -> str:
        """The path below the upstream's base URL for `model`."""
        ...

    def named(self, body: Mapping[str, Json], model: str) -> Mapping[str, Json]:
        """The body with the upstream's own name for the model."""
        ...

    def plainest(self, model: str) -> tuple[str, Mapping[str, Json]]:
        """(path, body) of the plainest request that `model` can be asked."""
        ...

    def keyed(self, key: str) -> Mapping[str, str]:
        """The headers that carry a key."""
        ...

    def tally(self, asked: Asked) -> Tally:
        """A reader for the reply."""
        ...

    def usable(self, reply: Mapping[str, Json]) -> bool:
        """Whether a whole reply has the shape that clients rely on."""
        ...

    def error(self, status: int, kind: str, message: str) -> dict[str, Json]:
        """A refusal in the dialect's own shape."""
        ...


class Journal(Protocol):
    """Where calls are durable. Every method returns once what it did is on disk."""

    async def calls(self) -> Sequence[ModelCall]:
        """Every call so far, in the order they were begun."""
        ...

    async def begin_call(self, call: ModelCall, request: bytes) -> None:
        """Write a call down before it is sent, with the worst case it may take; again for another try of it."""
        ...

    async def finish_call(self, call: ModelCall) -> None:
        """Settle the last try: what it took, and the reply if there is one to keep."""
        ...


class MemoryJournal:
    """A journal that lasts as long as the process, for calls outside a run."""

    def __init__(self) -> None:
        self._calls: dict[tuple[int, str, int], ModelCall] = {}

    async def calls(self) -> Sequence[ModelCall]:
        return list(self._calls.values())

    async def begin_call(self, call: ModelCall, request: bytes) -> None:
        self._calls[call.ticket, call.role, call.call] = call

    async def finish_call(self, call: ModelCall) -> None:
        self._calls[call.ticket, call.role, call.call] = call


def refused(dialect: Dialect, status: int, kind: str, message: str) -> Reply:
    """A refusal as a reply, without anything having been asked upstream."""
    return Reply(status, "application/json", json.dumps(dialect.error(status, kind, message)).encode())
