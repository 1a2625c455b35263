"""What an optimizer is, and what hosts it. All protocols of this package on one page.

An optimizer rewrites the texts of declared slots. It sees train and val examples only, spends nothing but through its
host, and keeps everything it knows in a JSON state, so that a crash between or inside steps resumes exactly: a step
repeated from the same state asks for the same rollouts and completions, and those already paid for are served again.
The optimizer nominates; the host picks the winner.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from harness.records import Json, Status

Part = Literal["train", "val"]
Engine = Literal["raw", "braces", "jinja"]
Texts = dict[str, str]
State = dict[str, Any]


class Role(StrEnum):
    """Who a model call is for: named apart in config, log and report."""

    PROPOSES = "proposes"
    EVALUATES = "evaluates"
    SERVES = "serves"


@dataclass(frozen=True, slots=True)
class Slot:
    """One text an optimizer may rewrite. `text` is the seed.

    `required` placeholders must survive every edit; `engine` says how the text becomes a prompt: `raw` as it stands,
    `braces` with `{name}` filled in (all other braces are literal), `jinja` as a sandboxed template. `module` names the
    part of the program that reads it; a `frozen` slot is shown but never changed; a slot of kind `demos` holds a JSON
    list of worked examples and is never edited by a model.
    """

    name: str
    text: str
    required: tuple[str, ...] = ()
    engine: Engine = "raw"
    max_chars: int = 8_000
    module: str = ""
    frozen: bool = False
    kind: Literal["text", "demos"] = "text"


@dataclass(frozen=True, slots=True)
class Example:
    """One train or val example: what the program is given, and what would have been right where that may be shown.

    `key` is what measurements are kept under: the part belongs to it, so an id used in both parts is two examples.
    """

    id: str
    inputs: Mapping[str, Json] = field(default_factory=dict[str, Json])
    expected: Json = None
    part: Part = "train"

    @property
    def key(self) -> str:
        """The part and the id."""
        return f"{self.part}/{self.id}"


@dataclass(frozen=True, slots=True)
class Call:
    """One module's part in a rollout: which slot's module ran, on what, and what it said."""

    module: str
    given: str
    said: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one rollout or completion."""

    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """One candidate on one example, by its key. `score` is larger-is-better and None unless `status` is ok.

    `feedback` is untrusted text; `objectives` are named parts of the score; `trace` is what each module did.
    """

    example: str
    status: Status
    score: float | None = None
    feedback: str = ""
    objectives: Mapping[str, float] = field(default_factory=dict[str, float])
    trace: tuple[Call, ...] = ()
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Request:
    """A model call as data: what for, the named sections it may read, and what is asked of it.

    `tag` makes equal requests different draws; the same request with the same tag is paid for once. `messages`, (role,
    text) pairs, are what a hosted library wrote itself: they are sent as they stand, in place of the sections.
    """

    purpose: str
    sections: tuple[tuple[str, str], ...]
    ask: str
    tag: str = ""
    temperature: float = 1.0
    messages: tuple[tuple[str, str], ...] = ()

    def section(self, name: str) -> str:
        """The text of one section, empty when there is none of that name."""
        return next((text for found, text in self.sections if found == name), "")


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: `text` is None when the model said nothing or was cut off, and `why` says which."""

    text: str | None
    why: str = ""
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a hosted library's own client reaches a role's model over HTTP, metered like every other call."""

    base_url: str
    api_key: str = field(repr=False)
    model: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an edit was not admitted, in one line."""

    reason: str


@dataclass(frozen=True, slots=True)
class Remaining:
    """What may still be spent; None is unlimited. `tokens` is the lesser of what may go in and what may come out."""

    rollouts: int | None
    completions: int | None = None
    tokens: int | None = None
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """What a run is going to give an optimizer, known before anything is run: slots, and how many examples."""

    slots: Sequence[Slot]
    train: int
    val: int


@dataclass(frozen=True, slots=True)
class Done:
    """The optimizer has nothing more to try. `nominees` are the candidates the host shall choose among."""

    state: State
    reason: str
    nominees: tuple[Texts, ...]


class Host(Protocol):
    """What an optimizer may ask for. Every method that spends is metered by the one budget of the run."""

    @property
    def slots(self) -> Sequence[Slot]:
        """The declared slots, with their seed texts."""
        ...

    @property
    def floor(self) -> float | None:
        """The worst score there can be, when the subject declares a range: what a failure counts for."""
        ...

    def examples(self, part: Part) -> Sequence[Example]:
        """The examples of train or val, in a fixed order. Holdout and vault do not exist here."""
        ...

    async def evaluate(
        self, texts: Mapping[str, str], examples: Sequence[Example], tag: str = "", within: float | None = None
    ) -> list[Result]:
        """Run one candidate on examples, concurrently; results in their order, one for every example asked.

        The same candidate, example and tag is run and paid for once. Raises BudgetError before anything is run when not
        all of it fits. What is not finished `within` so many seconds is ended, and its result is a timeout.
        """
        ...

    async def run_own(
        self, texts: Mapping[str, str], example: Example, tag: str, run: Callable[[], Awaitable[Result]]
    ) -> Result:
        """A rollout that a hosted library runs itself, on this run's account: reserved before, kept after.

        The same candidate, example and tag is paid for once, and run again when it is asked for again.
        Raises BudgetError.
        """
        ...

    async def complete(self, role: Role, request: Request) -> Reply:
        """Ask the model of that role. Raises BudgetError."""
        ...

    def endpoint(self, role: Role) -> Endpoint:
        """The model of that role for a library that brings its own client. Raises AgentError where there is none."""
        ...

    def admit(self, parent: Mapping[str, str], edits: Mapping[str, str | None], seen: Sequence[str]) -> Texts | Refusal:
        """`parent` with `edits` laid over it, cleaned and checked; or why not. `seen` fingerprints were tried."""
        ...

    def unusable(self, role: Role, why: str) -> None:
        """Count a reply whose text was of no use. Replies without text and refused edits are counted as they come."""
        ...

    def remaining(self) -> Remaining:
        """What is left of the budget."""
        ...

    def rng(self, name: str, *numbers: int) -> np.random.Generator:
        """The named random stream of this run."""
        ...


class Optimizer(Protocol):
    """A prompt optimizer. Stateless between calls: all it knows is in the state."""

    name: str

    def check(self, config: Mapping[str, Json]) -> None:
        """Raise InputError for settings that make no sense, before anything is spent."""
        ...

    async def start(self, host: Host, config: Mapping[str, Json]) -> State:
        """The first state; JSON only. Raises InputError for settings that make no sense, BudgetError."""
        ...

    async def step(self, host: Host, state: State) -> State | Done:
        """One step on. Never changes `state` in place. Raises BudgetError when the budget is too small for it."""
        ...

    def nominees(self, state: State) -> tuple[Texts, ...]:
        """The candidates worth choosing among if it had to end here, best guess first."""
        ...


@runtime_checkable
class Foresees(Protocol):
    """An optimizer that can tell what it lacks before a run begins."""

    def needs(self, given: Given, config: Mapping[str, Json]) -> int:
        """The rollouts of its start and first step, the least that can come to anything.

        Raises InputError for a slot that there is not, MissingEnvironmentError for a package.
        """
        ...
