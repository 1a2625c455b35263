"""What a box costs: rollouts per second of a trivial Python program, as ratios of one run.

    python benchmarks/boxes.py [COUNT] [--at 2,4]

plain: a fresh subprocess, no isolation. exec + reset: one embedded box a worker, kept. fresh: an embedded box for
every rollout. Each column is interleaved with the others, so that a busy machine slows all of them.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

import anyio

from harness.box.base import BoxSpec, Command
from harness.box.embedded import EmbeddedBoxes

COMMAND = Command(("python", "-c", "pass"), deadline_s=30)
SPEC = BoxSpec(owner="benchmark")
ROUNDS = 5


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


async def rate(way, workers, count, boxes):
    started = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(workers):
            group.start_soon(way, count // workers, boxes)
    return count / (time.perf_counter() - started)


async def main(count, levels):
    boxes = EmbeddedBoxes()
    await boxes.prepare()
    ways = {"plain": plain, "exec + reset": kept, "fresh": fresh}
    print(f"{'at':>3}  " + "  ".join(f"{name:>14}" for name in ways) + "   rollouts/s (times plain's time)")
    for workers in levels:
        share = max(workers, count // ROUNDS)
        rates = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                rates[name].append(await rate(way, workers, share, boxes))
        middle = {name: statistics.median(found) for name, found in rates.items()}
        cells = (f"{value:7.1f} ({middle['plain'] / value:4.2f})" for value in middle.values())
        print(f"{workers:>3}  " + "  ".join(f"{cell:>14}" for cell in cells))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=200)
    parser.add_argument("--at", default="1,2,4")
    given = parser.parse_args()
    anyio.run(main, given.count, [int(level) for level in given.at.split(",")])
