"""The toy prompt world gives the reference figures: exact ones exactly, population means within their error."""

import math
import statistics

import pytest

from harness.optimizer.drive import optimize
from harness.optimizer.registry import make_optimizer
from harness.testing.prompt_host import SimulatedHost
from harness.testing.prompt_world import PromptWorld, questions

WORLD = PromptWorld()


def demo(kind, output="1", expected="1"):
    return f'{{"inputs": {{"kind": "{kind}"}}, "output": "{output}", "expected": "{expected}"}}'


def test_no_help_and_the_best_without_demos():
    assert WORLD.accuracy(WORLD.seed()) == pytest.approx(0.35)
    assert round(WORLD.best_without_demos(), 3) == 0.658


def test_rules_in_each_others_way():
    texts = {**WORLD.seed(), "parse": "Solve negatives dates"}
    assert WORLD.chance(texts, "B") == pytest.approx(0.75)
    assert WORLD.chance(texts, "C") == pytest.approx(0.45)


def test_demos_help_twice_at_most_and_wrong_ones_harm():
    for count, chance in ((1, 0.45), (2, 0.55), (3, 0.55)):
        texts = {**WORLD.seed(), "demos": f"[{','.join([demo('A')] * count)}]"}
        assert WORLD.chance(texts, "A") == pytest.approx(chance)
    texts = {**WORLD.seed(), "demos": f"[{demo('A', '2')}]"}
    assert WORLD.chance(texts, "A") == pytest.approx(0.25)


def test_length_costs():
    texts = {**WORLD.seed(), "parse": " ".join(["word"] * 12)}
    assert WORLD.chance(texts, "A") == pytest.approx(0.31)
    texts = {**WORLD.seed(), "demos": f"[{','.join([demo('B')] * 8)}]"}
    assert WORLD.chance(texts, "A") == pytest.approx(0.33)


@pytest.mark.parametrize(
    ("name", "config", "more", "mean"),
    [
        ("gepa", {}, {"rollouts": 1000, "val": questions(18, 2, "val")}, 0.591),
        ("textgrad", {"steps": 8, "minibatch": 12}, {}, 0.657),
        ("bootstrap", {"bootstrapped": 12, "sets": 0, "balance": "kind"}, {}, 0.483),
        ("bootstrap", {"bootstrapped": 12, "sets": 0, "balance": "kind", "passing": None}, {}, 0.235),
    ],
)
async def test_population_means_are_reached(name, config, more, mean):
    """Twelve seeds each: at or above the reference within three standard errors."""
    found = []
    for seed in range(12):
        host = SimulatedHost(seed=seed, **more)
        done = await optimize(make_optimizer(name), host, config)
        found.append(host.world.accuracy(done.nominees[0]))
    error = statistics.stdev(found) / math.sqrt(len(found))
    assert statistics.mean(found) > mean - 3 * max(error, 0.002)
