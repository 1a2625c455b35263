"""What a box costs: rollouts per second of a trivial Python program, as ratios of one run.

    python benchmarks/boxes.py [COUNT] [--at 2,4]

plain: a fresh subprocess, no isolation. exec + reset: one embedded box a worker, kept for a round, its opening
included. fresh: an embedded box for every rollout. The columns take turns, so that a busy machine slows all of them;
on a busy one wall time also counts the wait for two more hand-overs, and the CPU column is the one to read.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time

import anyio

from harness.box.base import BoxSpec, Command
from harness.box.embedded import EmbeddedBoxes

COMMAND = Command(("python", "-c", "pass"), deadline_s=30)
SPEC = BoxSpec(owner="benchmark")
ROUNDS = 3


async def plain(count, _boxes):
    for _ in range(count):
        await anyio.run_process([sys.executable, "-c", "pass"], stdin=subprocess.DEVNULL)


async def kept(count, boxes):
    async with boxes.open(SPEC) as box:
        for _ in range(count):
            await box.exec(COMMAND)
            await box.reset()


async def fresh(count, boxes):
    for _ in range(count):
        async with boxes.open(SPEC) as box:
            await box.exec(COMMAND)


def cpu_s():
    """CPU seconds of this process and of every child it has waited for, boxes' insides included."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


async def measure(way, workers, count, boxes):
    """(rollouts per second, CPU milliseconds per rollout)."""
    started, used = time.perf_counter(), cpu_s()
    async with anyio.create_task_group() as group:
        for _ in range(workers):
            group.start_soon(way, count // workers, boxes)
    done = count // workers * workers
    return done / (time.perf_counter() - started), (cpu_s() - used) / done * 1000


async def main(count, levels):
    boxes = EmbeddedBoxes()
    await boxes.prepare()
    ways = {"plain": plain, "exec + reset": kept, "fresh": fresh}
    print("rollouts/s (time as a multiple of plain's) cpu ms each (multiple)")
    print(f"{'at':>3}" + "".join(f"{name:>32}" for name in ways))
    for workers in levels:
        share = max(workers, count // ROUNDS)
        rounds = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                rounds[name].append(await measure(way, workers, share, boxes))
        rates, costs = (
            {name: statistics.median(found[part] for found in done) for name, done in rounds.items()} for part in (0, 1)
        )
        cells = (
            f"{rates[name]:.1f} ({rates['plain'] / rates[name]:.2f}) "
            f"{costs[name]:.1f} ({costs[name] / costs['plain']:.2f})"
            for name in ways
        )
        print(f"{workers:>3}" + "".join(f"{cell:>32}" for cell in cells))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=450)
    parser.add_argument("--at", default="1,2,4")
    given = parser.parse_args()
    anyio.run(main, given.count, [int(level) for level in given.at.split(",")])
