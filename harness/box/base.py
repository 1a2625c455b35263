"""What a box is: one live sandbox, spoken to over one wire.

Concurrency: one exec at a time in one box; different boxes are independent. Cancelling `exec` kills everything
the command started before the cancellation is delivered; a box whose wire broke is closed and says so. A box is
never shared by two variants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol

from harness.box.relay import Link
from harness.limits import Limits
from harness.records import Completed
from harness.tree import Entry

WORK, DATA, OUT, EVAL, LABELS, RESULT = "/work", "/data", "/out", "/eval", "/labels", "/result"
TMP = "/tmp"  # noqa: S108 - a path inside the box, private to it
FOLDERS = (WORK, DATA, OUT, EVAL, LABELS, RESULT)


@dataclass(frozen=True, slots=True)
class Mount:
    """A host folder laid read-only into the box at an absolute `at`."""

    source: Path
    at: str


@dataclass(frozen=True, slots=True)
class BoxSpec:
    """What to open. `owner` is the run id every process, folder and container of the box is labelled with.

    `link` is the gateway that an evaluation offers to the candidate it runs in such a box; opening ignores it.
    `reusable` promises that pinned code alone runs in it, so that a pool may hand it out again after a reset.
    `warm` names the modules that a warm Python has imported already; None starts every command anew. `variant` is the
    one variant whose code a warm box runs in its life, so that a pool may hand it out again for that one.
    `gpus` are those it may get: one of them, alone, or all with ("all",); pinned code gets none.
    """

    owner: str
    limits: Limits = field(default_factory=Limits)
    mounts: tuple[Mount, ...] = ()
    warm: tuple[str, ...] | None = None
    variant: str = ""
    gpus: tuple[str, ...] = ()
    link: Link | None = field(default=None, compare=False)
    reusable: bool = False

    def running(self, variant: str) -> BoxSpec:
        """This box for the code of one variant: kept for its next rollout where it is warm, else like any other."""
        return self if self.warm is None else replace(self, variant=variant)


@dataclass(frozen=True, slots=True)
class Command:
    """One program to run. `argv[0]` "python" is the user's own interpreter, at the same absolute path in the box.

    The environment is exactly `env` plus the box's own PATH, HOME and LANG; nothing is inherited. Programs are
    looked for in `ahead` before the box's own PATH, unless `env` has a PATH.
    """

    argv: tuple[str, ...]
    deadline_s: float
    cwd: str = WORK
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    stdin: bytes = b""
    ahead: tuple[str, ...] = ()


class Box(Protocol):
    """One live sandbox with the empty writable folders of `FOLDERS` and /tmp."""

    async def put(self, entries: Iterable[Entry], at: str, *, read_only: bool = False) -> None:
        """Write regular files below the folder `at`. `read_only` takes write bits off files and folders.

        Raises LimitError("disk"), InfraError, BoxClosedError.
        """
        ...

    async def exec(self, command: Command) -> Completed:
        """Run one command to its end, then kill whatever it left behind. A non-zero exit is a result.

        Raises ExecTimeoutError, LimitError, InfraError, BoxClosedError; InputError for a command that no box can run
        (no words, text that cannot be encoded, a zero byte, longer than a frame), and the box goes on.
        """
        ...

    async def attach(self, link: Link) -> None:
        """Offer the gateway behind `link` on loopback to every command from now until a reset, with the environment
        that clients look for. Raises InfraError, BoxClosedError.
        """
        ...

    async def get(self, at: str, *, max_bytes: int, max_entries: int = 10_000) -> list[Entry]:
        """Everything below the folder `at`, as data: links are named, never followed.

        Raises LimitError("output") when it holds more, InfraError, BoxClosedError.
        """
        ...

    async def reset(self) -> None:
        """Kill every process but the worker and empty every writable folder, which then looks as in a fresh box.

        Raises InfraError, with the box closed, where something is left: also a connection within the box that the
        kernel still remembers (TIME_WAIT).
        """
        ...


class Boxes(Protocol):
    """A back end that opens boxes."""

    @property
    def name(self) -> Literal["docker", "embedded", "process"]: ...

    @property
    def isolated(self) -> bool:
        """False for `process` alone: every log line and report of such a run says "no isolation"."""
        ...

    async def prepare(self) -> None:
        """Prove once that a box can be opened here. Raises BoxUnavailableError with what to do."""
        ...

    def open(self, spec: BoxSpec) -> AbstractAsyncContextManager[Box]:
        """A fresh box; leaving the context kills it with everything in it. Raises InfraError."""
        ...

    def enforcement(self) -> Mapping[str, str]:
        """How each of isolation, memory, pids, cpu and disk is held on this machine, one short phrase each."""
        ...

    async def reap(self, owners: Sequence[str]) -> int:
        """Remove what boxes of dead `owners` left on this machine (kill -9). Returns how many things went."""
        ...
