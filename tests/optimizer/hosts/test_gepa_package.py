"""The real gepa package, pinned below 0.2, over our host: its engine unchanged, our budget, our account of it."""

import pytest

from harness.optimizer.drive import optimize
from harness.optimizer.registry import make_optimizer
from harness.testing.prompt_host import SimulatedHost
from harness.testing.prompt_world import questions
from optimizer.worlds import Plugged, PulledPlugError, Raising

gepa = pytest.importorskip("gepa", reason="the gepa extra")


def host(kind=SimulatedHost, **more):
    return kind(train=questions(20, 1), val=questions(12, 2, "val"), **{"rollouts": 300, **more})


async def test_it_improves_within_the_budget():
    at = host()
    done = await optimize(make_optimizer("gepa-package"), at, {})
    assert at.used() <= 300
    assert at.world.accuracy(done.nominees[0]) > at.world.accuracy(at.world.seed())


@pytest.mark.parametrize("limit", [13, 21, 40, 77])
async def test_it_never_uses_more_than_asked(limit):
    at = host(rollouts=limit)
    await optimize(make_optimizer("gepa-package"), at, {})
    assert at.used() <= limit


async def test_its_own_limit_is_obeyed_by_it_alone():
    at = host()
    await optimize(make_optimizer("gepa-package"), at, {"max_metric_calls": 40})
    assert at.used() < 300


async def test_equal_seeds_agree():
    ends = [await optimize(make_optimizer("gepa-package"), host(seed=seed), {}) for seed in (0, 0)]
    assert ends[0] == ends[1]


async def test_after_a_crash_nothing_is_paid_for_twice():
    whole = host(Plugged)
    expected = await optimize(make_optimizer("gepa-package"), whole, {})
    at = host(Plugged, dies_at=9)
    kept = []

    async def keep(state):
        kept.append(state)

    with pytest.raises(PulledPlugError):
        await optimize(make_optimizer("gepa-package"), at, {}, keep=keep)
    at.dies_at = 10**9
    assert await optimize(make_optimizer("gepa-package"), at, {}, state=kept[-1]) == expected
    assert at.used() == whole.used()


async def test_a_task_that_always_raises_ends():
    done = await optimize(make_optimizer("gepa-package"), host(Raising, rollouts=80), {})
    assert done.nominees
