"""Prompt optimizers in the toy prompt world, against reference population means: python benchmarks/prompt_world.py 200.

Simulation: no number says anything about a real model. Every row is a mean over the seeds with its standard error,
and the rollouts really used; `wrong` is the share of the critic's advice that is off.
"""

import math
import statistics
import sys
import time
from functools import partial
from multiprocessing import Pool

import anyio

from harness.optimizer.drive import optimize
from harness.optimizer.registry import make_optimizer
from harness.optimizer.runoff import runoff
from harness.testing.prompt_critic import PromptCritic
from harness.testing.prompt_host import SimulatedHost
from harness.testing.prompt_world import PromptWorld, questions

TRAIN, VAL = questions(60, 1), questions(60, 2, "val")
MIPRO = {"instructions": 5, "demo_sets": 4, "trials": 24, "minibatch": 10, "full_every": 8, "full_count": 2}
OPRO = {"steps": 12, "proposals": 4, "shown": 6}
DEMOS = {"bootstrapped": 12, "labelled": 0, "sets": 0, "balance": "kind"}
SHARED = {"world": PromptWorld(shared=True), "train": TRAIN[:24]}
SMALL_VAL = {"val": VAL[:18]}

# name, optimizer, settings, host, most rollouts (None: as its settings say), share for the run-off, reference
ROWS = [
    ("gepa, Pareto", "gepa", {}, SMALL_VAL, 1000, 0, 0.591),
    ("gepa, best parent", "gepa", {"select": "best"}, SMALL_VAL, 1000, 0, 0.463),
    ("gepa, Pareto + merge", "gepa", {"merge_every": 6}, SMALL_VAL, 1000, 0, 0.586),
    ("gepa, Pareto, run-off", "gepa", {}, SMALL_VAL, 1000, 0.1, 0.591),
    ("mipro, grounded", "mipro", MIPRO, {}, 720, 0, 0.619),
    ("mipro, random combinations", "mipro", {**MIPRO, "sampler": "random"}, {}, 720, 0, 0.611),
    ("mipro, ungrounded", "mipro", {**MIPRO, "grounded": False}, {}, 660, 0, 0.502),
    ("opro, each text scored once", "opro", {**OPRO, "measure_again": 0}, SHARED, 1176, 0, 0.522),
    ("opro", "opro", OPRO, SHARED, 1176, 0, 0.522),
    ("textgrad, 8 steps of 12", "textgrad", {"steps": 8, "minibatch": 12}, {}, 192, 0, 0.657),
    ("bootstrap, filtered", "bootstrap", DEMOS, {}, 60, 0, 0.483),
    ("bootstrap, unfiltered", "bootstrap", {**DEMOS, "passing": None}, {}, 60, 0, 0.235),
    (
        "bootstrap + random search",
        "bootstrap",
        {"sets": 8, "labelled": 0, "labels_only": False, "balance": "kind", "per_value": 3},
        {},
        600,
        0,
        0.416,
    ),
    ("ace, 8 steps of 12", "ace", {"steps": 8, "batch": 12}, {}, 192, 0, None),
    ("apo", "apo", {}, {}, 1000, 0, None),
    ("protegi", "protegi", {"minibatch": 16, "samples": 8}, {}, 1000, 0, None),
    ("ape", "ape", {}, {}, 1000, 0, None),
]
MISLED = [
    (
        f"{name}, critic wrong half the time",
        optimizer,
        settings,
        {**host, "critic": PromptCritic(wrong=0.5)},
        most,
        share,
        None,
    )
    for name, optimizer, settings, host, most, share, _ in ROWS
    if name in ("gepa, Pareto", "gepa, Pareto, run-off", "textgrad, 8 steps of 12", "ace, 8 steps of 12", "apo")
]


async def one(row, seed):
    _, optimizer, settings, host, most, share, _ = row
    kept = int(most * share)
    at = SimulatedHost(seed=seed, rollouts=most - kept, **{"train": TRAIN, "val": VAL, **host})
    done = await optimize(make_optimizer(optimizer), at, settings)
    winner = done.nominees[0]
    if share:
        at.budget.limits["rollouts"] = most
        winner = await runoff(at, done.nominees, most - at.used(), most=4)
    return at.world.accuracy(winner), at.used(), at.used("completions")


def run(row, seed):
    return anyio.run(one, row, seed)


def main(seeds):
    if seeds < 2:
        sys.exit("give at least 2 seeds: a standard error needs them")
    print("| optimizer | mean | s.e. | reference | rollouts used / asked | completions |")
    print("|---|---|---|---|---|---|")
    started = time.monotonic()
    with Pool(2) as workers:
        for row in [*ROWS, *MISLED]:
            found = workers.map(partial(run, row), range(seeds), chunksize=5)
            scores = [score for score, _, _ in found]
            error = statistics.stdev(scores) / math.sqrt(seeds)
            used = max(rollouts for _, rollouts, _ in found)
            assert used <= row[4], f"{row[0]} used {used} of {row[4]}"
            reference = "" if row[6] is None else f"{row[6]:.3f}"
            calls = statistics.mean(calls for _, _, calls in found)
            print(
                f"| {row[0]} | {statistics.mean(scores):.3f} | {error:.3f} | {reference} "
                f"| {statistics.mean(r for _, r, _ in found):.0f} / {row[4]} | {calls:.0f} |",
                flush=True,
            )
    print(f"\n{seeds} seeds a row, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
