"""A budget that ends inside a step: what was measured in it is nominated, whoever optimizes."""

import pytest

from harness.optimizer.base import Done
from harness.optimizer.drive import optimize
from harness.optimizer.registry import make_optimizer
from harness.optimizer.unfinished import watched
from harness.testing.prompt_host import SimulatedHost
from harness.testing.prompt_world import questions
from optimizer.worlds import Jittery

SHORT = {"train": questions(12, 1), "val": questions(12, 2, "val")}


@pytest.mark.parametrize("name", ["opro", "ape", "protegi", "bootstrap", "mipro"])
async def test_a_first_step_that_a_budget_ends_still_nominates_what_it_measured(name):
    host = SimulatedHost(rollouts=90, **SHORT)
    done = await optimize(make_optimizer(name), host, {})
    seed = host.world.seed()
    assert "the budget is spent" in done.reason
    assert host.used() <= 90
    assert any(texts != seed for texts in done.nominees)


@pytest.mark.parametrize("name", ["opro", "ape", "bootstrap"])
async def test_the_same_is_nominated_whatever_is_finished_first(name):
    ends = [
        await optimize(make_optimizer(name), Jittery(rollouts=90, jitter=jitter, **SHORT), {}) for jitter in (1, 2, 3)
    ]
    assert ends[0].nominees == ends[1].nominees == ends[2].nominees


async def measured(*batches, before=(), rollouts=None):
    """What is nominated after (name, number of examples) were evaluated, each a text of the toy world."""
    host, watch = watched(SimulatedHost(rollouts=rollouts, **SHORT))
    for name, count in batches:
        await host.evaluate(TEXTS[name], host.examples("val")[:count])
    return [
        next(key for key, texts in TEXTS.items() if texts == one) for one in watch.nominees([TEXTS[b] for b in before])
    ]


def texts_of(rules):
    seed = SimulatedHost().world.seed()
    return {**seed, "answer": seed["answer"] + "".join(f"\nSolve {word}." for word in rules)}


TEXTS = {
    "seed": SimulatedHost().world.seed(),
    "leader": texts_of(["a"]),
    "x": texts_of(["b"]),
    "y": texts_of(["b", "c"]),
}


async def test_only_what_was_measured_as_widely_as_any_counts():
    assert "x" not in await measured(("x", 3), ("y", 12), before=["leader"])
    assert "y" in await measured(("x", 3), ("y", 12), before=["leader"])


async def test_behind_a_leader_that_was_not_measured_and_before_a_seed():
    assert (await measured(("x", 12), before=["leader", "seed"])) == ["leader", "x", "seed"]
    assert (await measured(("x", 12), before=["seed"])) == ["x", "seed"]
    assert (await measured(before=["leader", "seed"])) == ["leader", "seed"]


async def test_never_before_or_beside_a_leader_that_did_as_well():
    assert await measured(("leader", 12), ("leader", 12), before=["leader"]) == ["leader"]
    found = await measured(("seed", 12), ("x", 12), ("y", 12), before=["seed"])
    host = SimulatedHost(**SHORT)
    scores = {name: sum(r.score for r in await host.evaluate(TEXTS[name], host.examples("val"))) for name in TEXTS}
    better = sorted((n for n in ("x", "y") if scores[n] > scores["seed"]), key=lambda n: -scores[n])
    assert found == [*better, "seed"]


async def test_an_optimizer_that_ends_by_itself_is_left_alone():
    done = await optimize(make_optimizer("opro"), SimulatedHost(**SHORT), {"steps": 1})
    assert isinstance(done, Done)
    assert done.reason == "all 1 steps are done"
