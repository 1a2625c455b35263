"""Parent selection and guards on simulated worlds, many seeds. Nothing is run but Strop's own engine and selection.

    python benchmarks/landscape.py [SEEDS] [--guard SEEDS] [--jobs N]

SIMULATION. Prints the mean best score after 60 steps of each rule and what the guard blocks, with standard errors.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import repeat
from pathlib import Path

import anyio

import harness
from harness.archive.sqlite import SqliteArchive
from harness.repo.store import TreeStore
from harness.testing.hillside import true_loss, write_hillside

LANDSCAPE = Path(__file__).parents[1] / "archives" / "landscape"
POPULATION = {"dgm": 0.812, "greedy": 0.370, "uniform": 0.749, "best_only": 0.370}
MEMORY = Path("/dev/shm")  # many short runs: what is measured is selection, not a disk


async def _play(subject: Path, seed: int, runs: Path, overrides: dict[str, object]) -> harness.Run:
    async with harness.open_run(subject, seed=seed, runs=runs, overrides=overrides) as run:
        async for _ in run.events:
            pass
    return run


def best(rule: str, seed: int) -> float:
    """The best score of one run."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        run = anyio.run(partial(_play, LANDSCAPE, seed, Path(folder), {"select.rule": rule}))
        return run.summary["incumbent"]["metric"]  # pyright: ignore


async def _guarded(folder: Path, seed: int, guard: bool) -> tuple[float, float, float]:
    run = await _play(write_hillside(folder / "hillside", guard=guard), seed, folder / "runs", {})
    archive = await SqliteArchive.view(run.folder)
    variant = await archive.variant(run.summary["incumbent"]["id"])  # pyright: ignore
    await archive.aclose()
    store = TreeStore(run.folder / "archive.git")
    await store.view()
    kept = await store.kept()
    tree = await store.read(variant.tree if variant else kept["root"])
    return run.summary["incumbent"]["metric"], true_loss(tree), run.summary["counts"].get("blocked", 0)  # pyright: ignore


def guarded(guard: bool, seed: int) -> tuple[float, float, float]:
    """(reported loss, true loss, blocked) of one run of the proposer that cheats."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        return anyio.run(_guarded, Path(folder), seed, guard)


def told(values: list[float]) -> str:
    """Mean, standard error and spread."""
    spread = statistics.stdev(values)
    return (
        f"{statistics.mean(values):.3f} +- {spread / math.sqrt(len(values)):.3f} (sd {spread:.3f}, {len(values)} runs)"
    )


def main() -> None:
    """Print both tables."""
    options = argparse.ArgumentParser()
    options.add_argument("seeds", nargs="?", type=int, default=100)
    options.add_argument("--guard", type=int, default=50)
    options.add_argument("--jobs", type=int, default=2)
    asked = options.parse_args()
    print("SIMULATION: made-up scores, Strop's own engine and selection; 60 steps")
    with ProcessPoolExecutor(asked.jobs) as jobs:
        for rule, expected in POPULATION.items():
            found = list(jobs.map(best, repeat(rule, asked.seeds), range(asked.seeds)))
            print(f"{rule:10} best score {told(found)}   population mean {expected:.3f}", flush=True)
        for guard in (True, False):
            rows = list(jobs.map(guarded, repeat(guard, asked.guard), range(asked.guard)))
            for name, column in zip(("reported", "true", "blocked"), zip(*rows, strict=True), strict=True):
                print(f"guard {'on' if guard else 'off':3} {name:8} {told(list(column))}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
