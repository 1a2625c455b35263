"""The one tree of errors. Every leaf says what happened in typed fields and what to do next.

StropError                      exit
├── InputError                  2     something the user wrote is wrong: file, key, mend
├── RunBusyError                2     another live process owns the run folder
├── MissingEnvironmentError     3     this machine lacks what was asked for
│   └── BoxUnavailableError     3     the chosen box back end does not work here
├── StorageError                3     disk full, read-only folder: the run can be resumed
├── IntegrityError              4     chain, tree or lock differs from what was recorded
├── BudgetError                 1     a reservation that the budget refuses
├── AgentError                  1     a proposer failed or said something unusable
├── ModelError                  1     an upstream refuses us for good, or stayed down: the run stops and can be resumed
├── CassetteError               1     a call that the cassette of a replayed run does not hold
└── BoxError                    1
    ├── InfraError              1     the box failed, the command did not: retried, never a verdict
    ├── BoxClosedError          1     used after close or reset by its owner
    ├── ExecTimeoutError        1     the command ran past its deadline and was killed
    └── LimitError              1     the command hit a limit: which one, at what value
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from harness.records import Completed


class StropError(Exception):
    """Base of every error raised on purpose. `mend` tells the reader what to do next."""

    exit_code = 1

    def __init__(self, message: str, *, mend: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.mend = mend

    def __str__(self) -> str:
        return f"{self.message}\n  mend: {self.mend}" if self.mend else self.message


class InputError(StropError):
    """Something the user wrote cannot be used. Names the file and the key."""

    exit_code = 2

    def __init__(self, message: str, *, file: Path | str = "", key: str = "", mend: str = "") -> None:
        place = ": ".join(part for part in (str(file), key) if part)
        super().__init__(f"{place}: {message}" if place else message, mend=mend)
        self.problem = message
        self.file = str(file)
        self.key = key


class RunBusyError(StropError):
    """The run folder is in use; `holder` describes the live process."""

    exit_code = 2

    def __init__(self, folder: Path | str, *, holder: str) -> None:
        super().__init__(
            f"{folder} is in use by {holder}",
            mend="wait for it, stop it with Ctrl-C or its stop file, or start a new run",
        )
        self.folder = str(folder)
        self.holder = holder


class MissingEnvironmentError(StropError):
    """This machine lacks something that was asked for."""

    exit_code = 3

    def __init__(self, what: str, *, reason: str, mend: str) -> None:
        super().__init__(f"{what}: {reason}", mend=mend)
        self.what = what
        self.reason = reason


class BoxUnavailableError(MissingEnvironmentError):
    """A box back end that does not work on this machine. Never answered by a weaker one."""


class StorageError(StropError):
    """The run folder cannot be written (full, read-only, gone), or not read. What was acknowledged is safe."""

    exit_code = 3

    def __init__(self, folder: Path | str, *, reason: str, mend: str = "", doing: str = "write") -> None:
        super().__init__(
            f"cannot {doing} {folder}: {reason}",
            mend=mend or "free space or fix permissions, then `strop resume` the run; nothing finished was lost",
        )
        self.folder = str(folder)
        self.reason = reason


class IntegrityError(StropError):
    """A record, tree or lock is not what it was when it was written. `record` names the first bad one."""

    exit_code = 4

    def __init__(self, record: str, *, expected: str, found: str) -> None:
        super().__init__(
            f"integrity: {record}: expected {expected}, found {found}",
            mend="do not trust this run; compare with a copy of it, or start again from the subject",
        )
        self.record = record
        self.expected = expected
        self.found = found


class BudgetError(StropError):
    """`asked` more `kind` would pass `limit` when `used` is already taken and `kept` has to be left to others."""

    def __init__(self, kind: str, *, limit: float, used: float, asked: float, kept: float = 0.0) -> None:
        others = f" ({kept:.10g} kept for the vault)" if kept else ""
        super().__init__(
            f"budget {kind}: {used:.10g} of {limit:.10g} used{others}, {asked:.10g} more refused"
            f"{_smallest(kind, used + kept + asked)}",
            mend=f"raise it and go on: `strop resume RUN --set budget.{kind}=N`; or start another run with more",
        )
        self.kind = kind
        self.limit = limit
        self.used = used
        self.asked = asked
        self.kept = kept


def _smallest(kind: str, limit: float) -> str:
    """Why one call may need so much, and what would let it be made."""
    if kind not in {"tokens_in", "tokens_out", "usd"}:
        return ""
    return f": a call is held at the most that it can take, and {limit:.10g} is the smallest limit for this one"


class AgentError(StropError):
    """A proposer failed. Recorded against the ticket; never against a variant's score."""


class ModelError(StropError):
    """The upstream of `model` will not answer us: a wrong key, an unknown model, or down for longer than its patience.

    Never a verdict on a variant and never a step: the run stops where it is and can be resumed.
    """

    exit_code = 3

    def __init__(self, model: str, *, reason: str, mend: str) -> None:
        super().__init__(f"model {model}: {reason}", mend=mend)
        self.model = model
        self.reason = reason


class CassetteError(StropError):
    """A run that answers from a cassette made a call that is not in it: nobody was asked, and the run stops."""

    def __init__(self, path: Path | str, *, ticket: int, role: str, model: str, digest: str) -> None:
        super().__init__(
            f"{path} has no completion for call {digest[:12]} of the {role} in ticket {ticket} (model {model})",
            mend="the subject, policy, seed or version differ from the recording: make it again with --record",
        )
        self.path = str(path)
        self.ticket = ticket
        self.role = role
        self.model = model
        self.digest = digest


class BoxError(StropError):
    """Base of what can go wrong with one live box."""


class InfraError(BoxError):
    """The box, engine or wire failed; nothing is known about the command. Retry; never a verdict."""


class BoxClosedError(BoxError):
    """The box was used after it was closed."""


class ExecTimeoutError(BoxError):
    """The command ran past `deadline_s` seconds and was killed with all its descendants."""

    def __init__(self, deadline_s: float, *, partial: Completed) -> None:
        super().__init__(f"killed at its deadline of {deadline_s:g} s")
        self.deadline_s = deadline_s
        self.partial = partial


def _amount(limit: str, value: float) -> str:
    """A limit in its own unit: memory and disk are counted in MB, output in bytes."""
    if limit in {"memory", "disk"}:
        return f"{value:g} MB"
    if limit == "output":
        return f"{value / 2**20:.3g} MB" if value >= 2**20 else f"{value / 2**10:.3g} kB"
    return f"{value:g}"


class LimitError(BoxError):
    """The command hit `limit` (memory, pids, disk, output, open_files, cpu) at `value`."""

    def __init__(self, limit: str, *, value: float, partial: Completed) -> None:
        super().__init__(f"hit its {limit} limit of {_amount(limit, value)}")
        self.limit = limit
        self.value = value
        self.partial = partial
