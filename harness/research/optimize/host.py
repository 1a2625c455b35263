"""The real host of an optimizer: its rollouts, model calls and budget are the run's.

Only visible examples exist here, cut into train and val by the run's seed. A ticket's rollouts are kept under that
ticket, so that a resumed ticket asks for the same ones and pays for none twice.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import anyio
import numpy as np

from harness.errors import BudgetError
from harness.optimizer.admit import admit
from harness.optimizer.base import (
    Endpoint,
    Example,
    Part,
    Refusal,
    Remaining,
    Reply,
    Request,
    Result,
    Role,
    Slot,
    Texts,
    Usage,
)
from harness.optimizer.heard import Heard
from harness.optimizer.judge import Judged, both_orders, speaks_of, speaks_to_judge, verdict
from harness.optimizer.together import together
from harness.policy.budget import Budget
from harness.policy.locks import Globs
from harness.policy.schema import SubjectFile
from harness.records import Json, Outcome, RolloutKey, Split, Status
from harness.repo.objects import encode
from harness.repo.store import TreeStore
from harness.research.optimize.source import Source, floor_of, oriented
from harness.research.rollouts import Rollouts
from harness.streams import derive, stream
from harness.tree import Tree
from harness.untrusted import clean

_MOST_SAID = 4_000
Measured = tuple[str, int, str]


class Model(Protocol):
    """Whoever answers an optimizer's requests."""

    async def complete(self, ticket: int, role: Role, request: Request) -> Reply:
        """The reply. Raises BudgetError."""
        ...

    def check(self, ticket: int) -> None:
        """Raises BudgetError or ModelError if a call over an `endpoint` was refused for that."""
        ...

    def took(self, key: RolloutKey) -> Usage:
        """The tokens that a rollout's own calls took."""
        ...

    def left(self, ticket: int) -> Remaining:
        """What a ticket's model calls may still take; of rollouts it knows nothing."""
        ...

    def endpoint(self, ticket: int, role: Role) -> Endpoint:
        """Where a client of its own reaches it. Raises AgentError."""
        ...


@dataclass(frozen=True, slots=True)
class _Had:
    """An evaluation whose outcome is there already."""

    outcome: Outcome

    async def rollout(self, tree: Tree, split: Split, seed: int) -> Outcome:
        """See `Evaluation`."""
        return self.outcome


@dataclass
class RunHost:
    """A `Host` for one ticket. `reserve` is what must be left of the budget when the optimizer is done with it.

    `deterministic` programs are run once on an example, whatever the tag. `known` are rollouts of earlier tickets,
    served again for nothing; `paid` are this ticket's own.
    """

    ticket: int
    seed: int
    root: Tree
    file: SubjectFile
    source: Source
    model: Model
    store: TreeStore
    rollouts: Rollouts
    budget: Budget
    reserve: int
    deterministic: bool
    train_share: float
    most: int
    judge: Sequence[str] = ()
    known: Mapping[Measured, Outcome] = field(default_factory=dict[Measured, Outcome])
    slots: Sequence[Slot] = field(init=False)
    paid: set[RolloutKey] = field(default_factory=set[RolloutKey])
    heard: Heard = field(default_factory=Heard)
    _parts: dict[Part, list[Example]] = field(init=False)

    def __post_init__(self) -> None:
        self.slots = slots_of(self.file, self.root)
        self._parts = cut(self.source.examples(), self.seed, self.train_share)

    @property
    def floor(self) -> float | None:
        """See `Host`."""
        return floor_of(self.file.eval.range, self.file.eval.direction)

    def examples(self, part: Part) -> Sequence[Example]:
        """See `Host`."""
        return self._parts[part]

    async def evaluate(
        self, texts: Mapping[str, str], examples: Sequence[Example], tag: str = "", within: float | None = None
    ) -> list[Result]:
        """See `Host`."""
        tree = tree_of(self.file, self.root, texts)
        tree_id, _ = encode(tree)
        repeat = 0 if self.deterministic else derive(0, "tag", tag) % 2**31
        keys = [RolloutKey(tree_id, Split.VISIBLE, repeat, self.ticket, "screen", one.key) for one in examples]
        # paid for before anything is awaited, so that who is refused depends on the order of asking alone
        self.pay({key for key in keys if key not in self.paid and measured(key) not in self.known})
        await self.store.write(tree)
        pairs = zip(keys, examples, strict=True)
        outcomes = await together([partial(self._in_time, key, tree, one, within) for key, one in pairs])
        results = [
            replace(self.source.result(one, outcome), usage=self.model.took(key))
            for key, one, outcome in zip(keys, examples, outcomes, strict=True)
        ]
        if not self.judge:
            return results
        judged = [partial(self._judged, one, got) for one, got in zip(examples, results, strict=True)]
        return await together(judged)

    async def run_own(
        self, texts: Mapping[str, str], example: Example, tag: str, run: Callable[[], Awaitable[Result]]
    ) -> Result:
        """See `Host`. What it gave is kept as a rollout of this ticket's, under a key that no eval of ours has."""
        tree = tree_of(self.file, self.root, texts)
        tree_id, _ = encode(tree)
        repeat = derive(0, "tag", tag) % 2**31
        key = RolloutKey(tree_id, Split.VISIBLE, repeat, self.ticket, "screen", f"own/{example.key}")
        self.pay({key} - self.paid)
        await self.store.write(tree)
        result = await run()
        self.model.check(self.ticket)  # a budget that ran out under it, or a dead upstream, is no failure of its own
        score = oriented(result.score, self.file.eval.direction)
        outcome = Outcome(result.status, score, detail=clean(result.feedback, _MOST_SAID))
        await self.rollouts.run(key, tree, _Had(outcome))
        return result

    async def complete(self, role: Role, request: Request) -> Reply:
        """See `Host`."""
        reply = await self.model.complete(self.ticket, role, request)
        self.heard.took(role, reply.text, reply.why)
        return reply

    def endpoint(self, role: Role) -> Endpoint:
        """See `Host`."""
        return self.model.endpoint(self.ticket, role)

    def admit(self, parent: Mapping[str, str], edits: Mapping[str, str | None], seen: Sequence[str]) -> Texts | Refusal:
        """See `Host`."""
        made = admit(self.slots, [*self._parts["train"], *self._parts["val"]], parent, edits, seen)
        if isinstance(made, Refusal):
            self.heard.refused(self.slots, edits, made)
        return made

    def unusable(self, role: Role, why: str) -> None:
        """See `Host`."""
        self.heard.unusable(role, why)

    def remaining(self) -> Remaining:
        """See `Host`."""
        limit = self.budget.limits.get("rollouts")
        taken = self.budget.used.get("rollouts", 0.0) + self.budget.held.get("rollouts", 0.0)
        left = self.most - len(self.paid)
        left = max(0, left if limit is None else min(left, int(limit - taken) - self.reserve))
        return replace(self.model.left(self.ticket), rollouts=left)

    def rng(self, name: str, *numbers: int) -> np.random.Generator:
        """See `Host`."""
        return stream(self.seed, f"optimizer/{name}", *numbers)

    def pay(self, keys: set[RolloutKey]) -> None:
        """Settle these rollouts in the run's budget, or raise BudgetError before any of them is run."""
        left = self.remaining().rollouts
        if left is not None and len(keys) > left:
            raise BudgetError("rollouts", limit=left, used=0, asked=len(keys))
        self.budget.reserve("rollouts", len(keys))
        self.budget.settle("rollouts", len(keys), len(keys))
        self.paid |= keys

    async def _judged(self, example: Example, result: Result) -> Result:
        """`result` with what a judge makes of it beside the label. The score stays the scorer's."""
        if result.score is None or example.expected is None or not result.trace:
            return result
        judged = await self._verdict(example, result.trace[-1].said)
        if not judged.shares:
            return result
        shares = {f"judge:{name}": share for name, share in judged.shares.items()}
        said = ", ".join(f"{name} {share:g}" for name, share in judged.shares.items())
        # first, because a long reply would push it off the end of the line that a model is shown
        feedback = f"judged against the label: {said}; {result.feedback}"
        return replace(result, objectives={**result.objectives, **shares}, feedback=feedback)

    async def _verdict(self, example: Example, reply: str) -> Judged:
        if speaks_to_judge(reply, self.judge):
            return Judged(dict.fromkeys(self.judge, 0.0))
        asked = json.dumps(dict(example.inputs))
        orders = both_orders(asked, reply, _reference(example.expected), self.judge, f"judge/{example.key}")
        replies = [await self.complete(Role.EVALUATES, request) for request in orders]
        for said in replies:
            if said.text is not None and not speaks_of(said.text, self.judge):
                self.unusable(Role.EVALUATES, "no verdict in it")
        return verdict(replies[0].text, replies[1].text, self.judge)

    async def _in_time(self, key: RolloutKey, tree: Tree, example: Example, within: float | None) -> Outcome:
        with anyio.move_on_after(within):
            return await self._run(key, tree, example)
        late = Outcome(Status.TIMEOUT, detail=f"not finished {within:g} s after its batch began")
        return await self.rollouts.run(key, tree, _Had(late))  # kept, so that a resumed run finds the same

    async def _run(self, key: RolloutKey, tree: Tree, example: Example) -> Outcome:
        known = self.known.get(measured(key))
        return known or await self.rollouts.run(key, tree, self.source.evaluation(example.id))


def _reference(expected: Json) -> str:
    """The label as a reply to set beside another: its `reply` if it has one, so that form does not tell them apart."""
    if isinstance(expected, Mapping) and isinstance(expected.get("reply"), str):
        return str(expected["reply"])
    return expected if isinstance(expected, str) else json.dumps(expected)


def measured(key: RolloutKey) -> Measured:
    """What makes two rollouts of different tickets the same measurement."""
    return key.tree, key.repeat, key.example


def cut(examples: Sequence[Example], seed: int, train_share: float) -> dict[Part, list[Example]]:
    """Train and val out of the visible examples, by the run's seed; each has at least one, none is in both."""
    order = [int(k) for k in stream(seed, "optimizer/split").permutation(len(examples))]
    share = min(len(examples) - 1, max(1, round(train_share * len(examples))))
    chosen = set(order[:share])
    return {
        "train": [_in("train", one) for k, one in enumerate(examples) if k in chosen],
        "val": [_in("val", one) for k, one in enumerate(examples) if k not in chosen],
    }


def slots_of(file: SubjectFile, root: Tree) -> tuple[Slot, ...]:
    """The declared slots with their seed texts; without any declared, every editable text file is a raw slot."""
    if file.slots:
        return tuple(
            Slot(
                name,
                root[table.file].data.decode(),
                required=table.required,
                engine=table.engine,
                max_chars=table.max_chars,
                module=table.module,
                frozen=table.frozen,
                kind=table.kind,
            )
            for name, table in file.slots.items()
        )
    return tuple(Slot(path, root[path].data.decode()) for path in slot_files(file, root).values())


def slot_files(file: SubjectFile, root: Tree) -> dict[str, str]:
    """The file of each slot."""
    if file.slots:
        return {name: table.file for name, table in file.slots.items()}
    return {path: path for path in Globs(file.subject.editable).select(root)}


def tree_of(file: SubjectFile, root: Tree, texts: Mapping[str, str]) -> Tree:
    """The variant that a candidate's texts make of the root."""
    files = slot_files(file, root)
    return root.changed({files[name]: text.encode() for name, text in texts.items()})


def _in(part: Part, example: Example) -> Example:
    return Example(example.id, example.inputs, example.expected, part)
