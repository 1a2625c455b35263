"""What the guard costs a step, against the same step without one, and where it goes.

    python benchmarks/guard_overhead.py [--steps 40] [--work 0.3]

Both sides run the same subject in boxes of one kind. Unguarded: one box a step, candidate and scorer in it, greedy.
Guarded: a whole run, with door, two boxes, recheck, gate, holdout, ledger and git. `--work` is how many seconds of
processor time a candidate takes: the price is fixed, so its share falls with the work.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.toy import TRAIN, make_toy

from harness import open_run
from harness.box.base import DATA, EVAL, LABELS, OUT, RESULT, WORK, BoxSpec, Command
from harness.box.choose import choose
from harness.events import RolloutFinished
from harness.tree import Entry

BUSY = "import time\nwhile time.process_time() < WORK:\n    pass\nids ="


async def unguarded(subject: Path, steps: int) -> float:
    """Seconds a step: put, run, score, read, all in one box."""
    boxes = choose("embedded")
    await boxes.prepare()
    started = time.perf_counter()
    for _ in range(steps):
        async with boxes.open(BoxSpec("overhead")) as box:
            await box.put([_entry(subject / name, name) for name in ("train.py", "lib.py")], WORK)
            await box.put([_entry(subject / "score.py", "score.py")], EVAL)
            await box.put([_entry(subject / "data/visible/inputs/ids.txt", "ids.txt")], DATA)
            await box.put([_entry(subject / "data/visible/labels/labels.csv", "labels.csv")], LABELS)
            await box.exec(Command(("python", "train.py"), 60, WORK))
            await box.exec(Command(("python", "score.py"), 60, EVAL))
            await box.get(RESULT, max_bytes=2**20)
            await box.get(OUT, max_bytes=2**20)
    return (time.perf_counter() - started) / steps


def _entry(path: Path, name: str) -> Entry:
    return Entry(name.encode(), "file", data=path.read_bytes())


async def guarded(subject: Path, runs: Path, steps: int) -> tuple[float, int, float]:
    """(seconds a step, rollouts in all, seconds a rollout inside candidate boxes) of discarded candidates."""
    script = [f"value {n / 1000}" for n in range(1, steps + 1)]
    chosen = {"agent.name": "support.agents:Scripted", "agent.config": {"script": script}, "budget.steps": steps}
    inside: list[float] = []
    async with open_run(subject, workers=1, overrides={**chosen, "box.backend": "embedded"}, runs=runs) as run:
        marks: list[float] = []
        async for event in run.events:
            marks.append(time.perf_counter())
            if isinstance(event, RolloutFinished):
                inside.append(event.outcome.wall_s)
    rollouts = run.summary["budget"]["rollouts"]["used"]
    return (marks[-1] - marks[4]) / steps, rollouts, sum(inside) / len(inside)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--work", type=float, default=0.3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        subject = make_toy(root / "toy", train=TRAIN.replace("ids =", BUSY.replace("WORK", str(args.work))))
        bare = anyio.run(unguarded, subject, args.steps)
        seconds, rollouts, inside = anyio.run(guarded, subject, root / "runs", args.steps)
    print(f"unguarded {1000 * bare:8.1f} ms a step (one box)")
    print(f"guarded   {1000 * seconds:8.1f} ms a step ({rollouts} rollouts, start and end included)")
    print(f"  of it   {1000 * inside:8.1f} ms in the candidate, the rest: two boxes, door, gate, ledger, git")
    print(f"ratio     {seconds / bare:8.2f}")


if __name__ == "__main__":
    main()
