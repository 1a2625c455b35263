"""What the guard costs a step, against the same step without one, and where it goes.

    python benchmarks/guard_overhead.py [--rounds 4] [--steps 12] [--work 0.3]

Both sides run the same subject in embedded boxes that are opened ahead. Unguarded: one box a step, candidate and scorer
in it, greedy. Guarded: a whole run, with door, two boxes, gate, ledger and git; its start and end are told apart. Both
take turns, round by round, and the ratio is that of the medians: a load that comes and goes falls on both. `--work` is
how many seconds of processor time a candidate takes: the price is fixed, so its share falls with the work.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.toy import TRAIN, make_toy

from harness import open_run
from harness.archive.sqlite import SqliteArchive
from harness.box.base import DATA, EVAL, LABELS, OUT, RESULT, WORK, BoxSpec, Command
from harness.box.choose import choose
from harness.box.pool import Pool
from harness.evaluation.split import SplitEvaluation
from harness.events import TicketDecided
from harness.repo.store import TreeStore
from harness.tree import Entry

BUSY = "import time\nwhile time.process_time() < WORK:\n    pass\nids ="
PARTS: dict[str, tuple[type, str]] = {
    "candidate box": (SplitEvaluation, "produce"),
    "scorer box": (SplitEvaluation, "grade"),
    "git: write a tree": (TreeStore, "write"),
    "git: keep a tree": (TreeStore, "keep"),
    "git: anchor the head": (TreeStore, "anchor"),
    "store: a rollout begins": (SqliteArchive, "begin_rollout"),
    "store: a rollout ends": (SqliteArchive, "finish_rollout"),
    "store: a proposal": (SqliteArchive, "store_proposal"),
    "ledger: a ticket": (SqliteArchive, "commit"),
}
spent: dict[str, list[float]] = defaultdict(list)


def timed(name: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """`call`, its seconds noted down."""

    async def measured(*rest: Any, **more: Any) -> Any:
        started = time.perf_counter()
        try:
            return await call(*rest, **more)
        finally:
            spent[name].append(time.perf_counter() - started)

    return measured


async def unguarded(subject: Path, steps: int) -> list[float]:
    """Seconds of each step: put, run, score, read, all in one box."""
    boxes = choose("embedded")
    await boxes.prepare()
    took: list[float] = []
    async with Pool(boxes) as pool:
        for _ in range(steps + 1):
            started = time.perf_counter()
            async with pool.open(BoxSpec("overhead")) as box:
                await box.put([_entry(subject / name, name) for name in ("train.py", "lib.py")], WORK)
                await box.put([_entry(subject / "score.py", "score.py")], EVAL)
                await box.put([_entry(subject / "data/visible/inputs/ids.txt", "ids.txt")], DATA)
                await box.put([_entry(subject / "data/visible/labels/labels.csv", "labels.csv")], LABELS)
                await box.exec(Command(("python", "train.py"), 60, WORK))
                await box.exec(Command(("python", "score.py"), 60, EVAL))
                await box.get(RESULT, max_bytes=2**20)
                await box.get(OUT, max_bytes=2**20)
            took.append(time.perf_counter() - started)
    return took[1:]


def _entry(path: Path, name: str) -> Entry:
    return Entry(name.encode(), "file", data=path.read_bytes())


async def guarded(subject: Path, runs: Path, steps: int) -> tuple[list[float], float]:
    """(seconds of each step of a run of discarded candidates, seconds of start and end together)."""
    script = [f"value {n / 1000}" for n in range(1, steps + 2)]
    chosen = {"agent.name": "support.agents:Scripted", "agent.config": {"script": script}, "budget.steps": steps + 1}
    began = time.perf_counter()
    marks: list[float] = []
    async with open_run(subject, workers=1, overrides={**chosen, "box.backend": "embedded"}, runs=runs) as run:
        async for event in run.events:
            if isinstance(event, TicketDecided):
                marks.append(time.perf_counter())
                if len(marks) == 1:
                    spent.clear()
                if len(marks) == steps + 1:
                    parts.append({name: sum(took) / steps for name, took in spent.items()})
    took = [after - before for before, after in itertools.pairwise(marks)]
    return took, time.perf_counter() - began - sum(took)


parts: list[dict[str, float]] = []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--work", type=float, default=0.3)
    args = parser.parse_args()
    for name, (owner, method) in PARTS.items():
        if hasattr(owner, method):
            setattr(owner, method, timed(name, getattr(owner, method)))
    bare: list[float] = []
    kept: list[float] = []
    around: list[float] = []
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        subject = make_toy(root / "toy", train=TRAIN.replace("ids =", BUSY.replace("WORK", str(args.work))))
        for number in range(args.rounds):
            bare += anyio.run(unguarded, subject, args.steps)
            steps, ends = anyio.run(guarded, subject, root / f"runs{number}", args.steps)
            kept += steps
            around.append(ends)
    first, second = statistics.median(bare), statistics.median(kept)
    print(f"unguarded {1000 * first:8.1f} ms a step (one box; median of {len(bare)}; load {load:.1f})")
    print(f"guarded   {1000 * second:8.1f} ms a step (median of {len(kept)})")
    for name in PARTS:
        share = statistics.median([one.get(name, 0.0) for one in parts])
        print(f"  {name:<24} {1000 * share:8.1f} ms")
    print(f"ratio     {second / first:8.2f}; means {sum(kept) / len(kept) / (sum(bare) / len(bare)):.2f}")
    print(f"start and end of a run, vault included: {statistics.median(around):.1f} s")


if __name__ == "__main__":
    main()
