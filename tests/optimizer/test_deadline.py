"""What a batch has not finished in time is ended, counts as a failure in its mean, and is not run again."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import anyio
import pytest

from harness.optimizer.apo import Apo
from harness.optimizer.base import Example, Result
from harness.optimizer.drive import optimize
from harness.optimizer.pool import score_of
from harness.policy.budget import Budget
from harness.policy.load import load_subject
from harness.records import Outcome, Status
from harness.research.optimize.host import RunHost
from harness.research.optimize.model import WorldModel
from harness.research.rollouts import Rollouts
from harness.resources import resource
from harness.testing.prompt_host import SimulatedHost
from harness.testing.prompt_world import questions
from harness.tree import File, Tree

FILE = load_subject(resource("archives") / "dialogue").file
STUCK = "e3"


@dataclass
class Deadlines:
    """Deadlines that pass when the others are done, in place of a clock's."""

    asked: list = field(default_factory=list)
    scopes: list = field(default_factory=list)

    def __call__(self, delay):
        self.asked.append(delay)
        self.scopes.append(anyio.CancelScope())
        return self.scopes[-1]

    def all_pass(self):
        for scope in self.scopes:
            scope.cancel()


@dataclass
class Examples:
    """Six examples, of which one never ends. An `Archive`, a `Source` and a `TreeStore` as far as a host needs them."""

    deadlines: Deadlines
    stored: dict = field(default_factory=dict)
    begun: list = field(default_factory=list)
    others: anyio.Event = field(default_factory=anyio.Event)

    def examples(self):
        return [Example(f"e{n}", {"persona": "", "history": "", "message": ""}, "x") for n in range(1, 7)]

    def evaluation(self, example):
        async def rollout(tree, split, seed):
            self.begun.append(example)
            if example == STUCK:
                await self.others.wait()
                self.deadlines.all_pass()
                await anyio.sleep_forever()
            return Outcome(Status.OK, 1.0)

        return SimpleNamespace(rollout=rollout)

    def result(self, example, outcome):
        return Result(example.key, outcome.status, outcome.score, outcome.detail)

    async def begin_rollout(self, key, seed):
        return self.stored.get(key)

    async def finish_rollout(self, key, outcome):
        self.stored[key] = outcome
        if len(self.stored) == 5:
            self.others.set()

    async def write(self, tree):
        pass


def host(world):
    async def works():
        pass

    return RunHost(
        ticket=1,
        seed=0,
        root=Tree({"prompts/reply.txt": File(b"{persona} {history} {message}")}),
        file=FILE,
        source=world,
        model=WorldModel(None, 0),
        store=world,
        rollouts=Rollouts(world, world, 0, anyio.CapacityLimiter(6), works, lambda key, outcome: None),
        budget=Budget({"rollouts": 100}),
        reserve=0,
        deterministic=False,
        train_share=0.5,
        most=100,
    )


async def test_what_is_late_is_a_timeout_paid_once_and_kept(monkeypatch):
    deadlines = Deadlines()
    monkeypatch.setattr("harness.research.optimize.host.anyio.move_on_after", deadlines)
    world = Examples(deadlines)
    at = host(world)
    every = [*at.examples("train"), *at.examples("val")]
    texts = {"reply": "{persona} {history} {message}"}
    for _ in range(2):
        with anyio.fail_after(60):
            found = await at.evaluate(texts, every, "t", within=9.0)
        late = [result for result in found if result.status is Status.TIMEOUT]
        assert [result.example.partition("/")[2] for result in late] == [STUCK]
        assert "9 s" in late[0].feedback
        assert score_of(found, 0.0) < score_of([result for result in found if result not in late], 0.0)
        assert world.begun.count(STUCK) == 1
        assert at.budget.used["rollouts"] == 6
    assert set(deadlines.asked) == {9.0}
    assert len(world.stored) == 6


@dataclass
class Noting(SimulatedHost):
    """Notes what deadline each batch was given."""

    given: list = field(default_factory=list)

    async def evaluate(self, texts, examples, tag="", within=None):
        self.given.append(within)
        return await super().evaluate(texts, examples, tag, within)


@pytest.mark.parametrize(("config", "seconds"), [({}, 3600.0), ({"rollout_batch_timeout": 40}, 40.0)])
async def test_apo_gives_every_batch_its_deadline(config, seconds):
    at = Noting(train=questions(8, 1), val=questions(8, 2, "val"))
    await optimize(Apo(), at, {"beam_rounds": 1, "beam_width": 1, "branch_factor": 2, **config})
    assert len(at.given) > 4
    assert set(at.given) == {seconds}
