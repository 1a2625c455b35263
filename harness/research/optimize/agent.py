"""A prompt optimizer as the agent of a run: it proposes what it nominates, and the run decides as it always does.

One ticket advances the optimizer until its leading nominee is new, and proposes that; once the optimizer is done its
best nominees are proposed, `finalists` at most, and then nothing. Gate and holdout choose, never the optimizer. Its
state after each step is durable, so that a killed run goes on inside the ticket.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import cast

from pydantic import Field

from harness.agent.base import Ask, Proposal
from harness.archive.ledger import canonical
from harness.archive.sqlite import SqliteArchive
from harness.errors import AgentError, InputError
from harness.failpoint import failpoint
from harness.optimizer.admit import fingerprint
from harness.optimizer.base import Done, Optimizer, Texts
from harness.optimizer.drive import advance
from harness.optimizer.heard import Heard
from harness.optimizer.registry import PREFIX, make_optimizer
from harness.optimizer.settings import Settings
from harness.records import Json, Outcome, RolloutKey
from harness.research.optimize.course import Course, place, read_course
from harness.research.optimize.host import Measured, RunHost, measured, slot_files, tree_of
from harness.research.rollouts import cite

MODEL_KEYS = ("proposes", "evaluates", "serves", "gradient_model", "editor_model", "evaluator_model")
UNBOUNDED = 10**9
Open = Callable[[int, int, Mapping[Measured, Outcome]], RunHost]


class HostSettings(Settings):
    """What the host of an optimizer obeys; everything else in `agent.config` is the optimizer's own.

    `train_share` of the visible examples are train, the others val. A ticket ends when the leading nominee is new and
    at least `per_ticket` rollouts were tried; `most_rollouts` bounds the optimizer over the run (0: the run's budget
    alone). The three roles name models of the policy: `proposes` writes texts (`gradient_model` and `editor_model`
    split it in two), `evaluates` judges (`evaluator_model` is the same), and `serves` is what the optimized program
    gets, whatever model it asks for (empty: what it asks for).
    `judge` names dimensions on which a model compares each reply with the label, for feedback only: it gates nothing.
    `critic_wrong` is the share of a simulated critic's advice that is off.
    """

    train_share: float = Field(default=0.5, gt=0, lt=1)
    finalists: int = Field(default=3, ge=1)
    per_ticket: int = Field(default=50, ge=1)
    most_rollouts: int = Field(default=0, ge=0)
    proposes: str = "default"
    evaluates: str = ""
    serves: str = ""
    gradient_model: str = ""
    editor_model: str = ""
    evaluator_model: str = ""
    max_tokens: int = Field(default=2048, ge=16)
    judge: tuple[str, ...] = ()
    critic_wrong: float = Field(default=0.0, ge=0, le=1)


@dataclass
class OptimizerAgent:
    """An `Agent` whose candidates are the texts of declared slots. `bind` gives it its run."""

    name: str
    optimizer: Optimizer
    settings: HostSettings
    config: Mapping[str, Json]
    _archive: SqliteArchive | None = None
    _open: Open | None = None
    ended: str = ""
    heard: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @classmethod
    def of(cls, name: str, config: Mapping[str, Json]) -> OptimizerAgent:
        """Raises InputError for an unknown optimizer or setting."""
        optimizer = make_optimizer(name.removeprefix(PREFIX))
        own = {key: value for key, value in config.items() if key in HostSettings.model_fields}
        rest = {key: value for key, value in config.items() if key not in own}
        try:
            optimizer.check(rest)
        except InputError as error:
            if error.mend.startswith("keys here: "):
                mend = f"{error.mend}; of every optimizer: {', '.join(sorted(HostSettings.model_fields))}"
                raise InputError(error.problem, key=error.key, mend=mend) from None
            raise
        return cls(name, optimizer, HostSettings.read(own), rest)

    def bind(self, archive: SqliteArchive, open_host: Open) -> None:
        """Give it the run: `open_host(ticket, most, known)` makes the host of one ticket, `most` rollouts at most."""
        self._archive, self._open = archive, open_host

    async def propose(self, ask: Ask) -> Proposal | None:
        """The next nominee that the run has not seen; None when there is none left."""
        course = await self._course(ask.ticket)
        host = await self._host(course)
        while not course.over:
            course = await self._on(course, host)
            await self._keep(course)
            failpoint("optimizer-stepped")
        self.heard = course.heard
        self.ended = f"the optimizer is done: {course.reason}" if course.reason else ""
        return None if course.given is None else self._proposal(ask, host, course, course.given)

    async def _on(self, course: Course, host: RunHost) -> Course:
        """One step of the optimizer, or one nominee of those it left."""
        if course.queue is not None:
            return replace(course, given=course.queue[0], queue=course.queue[1:])
        after = await advance(self.optimizer, host, self.config, course.state)
        course = replace(course, here=len(host.paid), heard=host.heard.json())
        if isinstance(after, Done):
            fresh = [texts for texts in after.nominees if fingerprint(texts) not in self._tried(course, host)]
            queue = tuple(fresh[: self.settings.finalists])
            return replace(course, state=after.state, queue=queue, reason=after.reason)
        course = replace(course, state=after)
        leading = self.optimizer.nominees(after)[:1]
        if leading and course.here >= self.settings.per_ticket:
            found = fingerprint(leading[0])
            course = course if found in self._tried(course, host) else replace(course, given=leading[0])
        return course

    def _tried(self, course: Course, host: RunHost) -> tuple[str, ...]:
        return (*course.proposed, fingerprint({slot.name: slot.text for slot in host.slots}))

    async def _course(self, ticket: int) -> Course:
        """Where this ticket stands: after its own last finished step, or after the ticket before."""
        meta = await self._bound().meta()
        now, before = read_course(meta.get(place(ticket))), read_course(meta.get(place(ticket - 1)))
        if now.ticket == ticket:
            return now
        if before.ticket != ticket - 1:
            raise AgentError("the optimizer's state is not the one the run left off at")
        course = before.next(ticket)
        await self._keep(course)
        return course

    async def _host(self, course: Course) -> RunHost:
        """The ticket's host, with what its finished steps have paid for and what earlier tickets know."""
        assert self._open is not None
        known: dict[Measured, Outcome] = {}
        own: list[RolloutKey] = []
        for key, _, outcome in await self._bound().rollouts():
            if key.example and key.purpose == "screen" and outcome is not None:
                if key.ticket < course.ticket:
                    known[measured(key)] = outcome
                elif key.ticket == course.ticket:
                    own.append(key)
        most = (self.settings.most_rollouts or UNBOUNDED) - course.spent
        host = self._open(course.ticket, most, known)
        host.pay(set(own[: course.here]))
        host.heard = Heard(course.heard)
        return host

    async def _keep(self, course: Course) -> None:
        await self._bound().set_meta(place(course.ticket), cast("Json", asdict(course)))

    def _bound(self) -> SqliteArchive:
        if self._archive is None:
            raise AgentError("an optimizer proposes inside a run only")
        return self._archive

    def _proposal(self, ask: Ask, host: RunHost, course: Course, texts: Texts) -> Proposal:
        child = tree_of(host.file, ask.tree, texts)
        changes = {path: child[path].data for path in slot_files(host.file, ask.tree).values()}
        state = course.state or {}
        memo: dict[str, Json] = {
            "optimizer": self.optimizer.name,
            "step": state.get("n", 0),
            "state": hashlib.sha256(canonical(state).encode()).hexdigest(),
            "rollouts": course.here,
            "reason": course.reason,
        }
        return Proposal(changes, note=f"{self.optimizer.name}: leads after step {memo['step']}", memo=memo)


async def tries_of(archive: SqliteArchive, ticket: int) -> list[Json]:
    """The single-example rollouts that ticket's proposal took, as its ledger entry cites them."""
    rows = await archive.rollouts()
    return [
        cite(key, seed, outcome)
        for key, seed, outcome in sorted(rows, key=lambda row: str(row[0]))
        if key.ticket == ticket and key.example and key.purpose == "screen" and outcome is not None
    ]
