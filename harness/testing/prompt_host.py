"""A host for optimizers over the toy prompt world: budgets counted exactly, everything a function of the seed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.errors import AgentError
from harness.optimizer.admit import admit, fingerprint
from harness.optimizer.base import (
    Call,
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
from harness.policy.budget import Budget
from harness.records import Status
from harness.streams import derive, stream
from harness.testing.prompt_critic import PromptCritic
from harness.testing.prompt_world import CHOICES, PromptWorld, questions

_PARTS = 2.0**63


@dataclass
class SimulatedHost:
    """`rollouts` and `completions` limit what may be spent (None: no limit); `used` tells what was."""

    world: PromptWorld = field(default_factory=PromptWorld)
    seed: int = 0
    train: Sequence[Example] = field(default_factory=lambda: questions(60, 1))
    val: Sequence[Example] = field(default_factory=lambda: questions(60, 2, "val"))
    rollouts: int | None = None
    completions: int | None = None
    critic: PromptCritic = field(default_factory=PromptCritic)
    floor: float | None = 0.0
    budget: Budget = field(init=False)
    results: dict[tuple[str, str, str], Result] = field(default_factory=dict[tuple[str, str, str], Result])
    replies: dict[tuple[str, str], Reply] = field(default_factory=dict[tuple[str, str], Reply])
    asked: list[Request] = field(default_factory=list[Request])
    heard: Heard = field(default_factory=Heard)

    def __post_init__(self) -> None:
        limits = {"rollouts": self.rollouts, "completions": self.completions}
        self.budget = Budget({kind: limit for kind, limit in limits.items() if limit is not None})

    @property
    def slots(self) -> Sequence[Slot]:
        """See `Host`."""
        return self.world.slots

    def used(self, kind: str = "rollouts") -> int:
        """How many were paid for."""
        return int(self.budget.used.get(kind, 0.0))

    def examples(self, part: Part) -> Sequence[Example]:
        """See `Host`."""
        return self.train if part == "train" else self.val

    async def evaluate(
        self, texts: Mapping[str, str], examples: Sequence[Example], tag: str = "", within: float | None = None
    ) -> list[Result]:
        """See `Host`. Simulated rollouts take no time."""
        name = fingerprint(texts)
        fresh = {one.key: one for one in examples if (name, one.key, tag) not in self.results}
        self.budget.reserve("rollouts", len(fresh))
        for example in fresh.values():
            self.results[name, example.key, tag] = self.rollout(texts, example, f"{name}/{tag}")
        self.budget.settle("rollouts", len(fresh), len(fresh))
        return [self.results[name, one.key, tag] for one in examples]

    def rollout(self, texts: Mapping[str, str], example: Example, luck: str) -> Result:
        """One simulated run; `luck` names its random draw."""
        kind, answer = str(example.inputs["kind"]), int(str(example.expected))
        draw = derive(self.seed, "rollout", luck, example.key) / _PARTS
        right = draw < self.world.chance(texts, kind)
        shift = 1 + derive(self.seed, "slip", luck, example.key) % (CHOICES - 1)
        said = answer if right else (answer + shift) % CHOICES
        module = "parse" if kind in "ABC" else "answer"
        spent = Usage(15 + sum(len(text.split()) for text in texts.values()), 10)
        return Result(
            example.key,
            Status.OK,
            float(right),
            self.world.feedback(texts, kind, right),
            trace=(Call(module, f"kind {kind}", str(said)),),
            usage=spent,
        )

    async def run_own(
        self, texts: Mapping[str, str], example: Example, tag: str, run: Callable[[], Awaitable[Result]]
    ) -> Result:
        """See `Host`."""
        key = (fingerprint(texts), f"own/{example.key}", tag)
        fresh = int(key not in self.results)
        self.budget.reserve("rollouts", fresh)
        self.budget.settle("rollouts", fresh, fresh)
        self.results[key] = await run()
        return self.results[key]

    def endpoint(self, role: Role) -> Endpoint:
        """See `Host`."""
        raise AgentError("a simulated model has no address")

    async def complete(self, role: Role, request: Request) -> Reply:
        """See `Host`: the simulated critic answers."""
        content = "\x1f".join([role, request.purpose, request.ask, *(f"{k}={v}" for k, v in request.sections)])
        key = (content, request.tag)
        if key not in self.replies:
            self.budget.reserve("completions", 1)
            text = self.critic.answer(request, stream(self.seed, "critic", content, request.tag))
            self.budget.settle("completions", 1, 1)
            self.asked.append(request)
            self.replies[key] = Reply(text)
        self.heard.took(role, self.replies[key].text)
        return self.replies[key]

    def admit(self, parent: Mapping[str, str], edits: Mapping[str, str | None], seen: Sequence[str]) -> Texts | Refusal:
        """See `Host`."""
        made = admit(self.slots, [*self.train, *self.val], parent, edits, seen)
        if isinstance(made, Refusal):
            self.heard.refused(self.slots, edits, made)
        return made

    def unusable(self, role: Role, why: str) -> None:
        """See `Host`."""
        self.heard.unusable(role, why)

    def remaining(self) -> Remaining:
        """See `Host`."""
        return Remaining(self._left("rollouts"), self._left("completions"))

    def rng(self, name: str, *numbers: int) -> np.random.Generator:
        """See `Host`."""
        return stream(self.seed, name, *numbers)

    def _left(self, kind: str) -> int | None:
        limit = self.budget.limits.get(kind)
        return None if limit is None else int(limit - self.budget.used.get(kind, 0.0))
