"""What a guarded rollout costs over running its two commands as plain subprocesses, and whether memory stays flat.

    python benchmarks/overhead.py [--steps 300]

One run measures both sides, in turn, on the same trivial subject: the ratio is the figure, not the seconds.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.toy import make_toy

from harness import open_run
from harness.events import TicketDecided


def plain(subject: Path, scratch: Path, runs: int) -> float:
    """Seconds for `runs` train-and-score pairs as bare processes, one after the other."""
    places = {"/data": subject / "data/visible/inputs", "/labels": subject / "data/visible/labels", "/out": scratch}
    sources = []
    for name in ("train.py", "score.py"):
        source = (subject / name).read_text().replace('"/result/', f'"{scratch}/')
        for place, folder in places.items():
            source = source.replace(f'"{place}/', f'"{folder}/')
        sources.append(scratch / name)
        sources[-1].write_text(source)
    started = time.perf_counter()
    for _ in range(runs):
        for source in sources:
            subprocess.run([sys.executable, str(source)], check=True)
    return time.perf_counter() - started


async def guarded(subject: Path, runs: Path, steps: int) -> tuple[float, int, list[tuple[int, int]]]:
    """(seconds, rollouts, [(ticket, resident kB)]) of one run with one worker."""
    memory: list[tuple[int, int]] = []
    script = [f"value {n % 97 + n / 1000}" for n in range(1, steps + 1)]
    chosen = {
        "agent.name": "support.agents:Scripted",
        "agent.config": {"script": script},
        "budget.steps": steps,
        "budget.rollouts": 3 * steps,
    }
    started = time.perf_counter()
    async with open_run(subject, workers=1, overrides=chosen, runs=runs) as run:
        async for event in run.events:
            if isinstance(event, TicketDecided) and event.decision.ticket % max(1, steps // 10) == 0:
                memory.append((event.decision.ticket, resident_kb()))
    budget = run.summary["budget"]
    return time.perf_counter() - started, budget["rollouts"]["used"], memory


def resident_kb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        subject = make_toy(root / "toy")
        (root / "scratch").mkdir()
        seconds, rollouts, memory = anyio.run(guarded, subject, root / "runs", steps)
        bare = plain(subject, root / "scratch", rollouts)
    print(f"guarded  {1000 * seconds / rollouts:8.1f} ms a rollout over {rollouts} rollouts, start and end included")
    print(f"plain    {1000 * bare / rollouts:8.1f} ms a rollout (two processes)")
    print(f"ratio    {seconds / bare:8.2f}")
    print("resident " + ", ".join(f"{kb // 1024} MB at {ticket}" for ticket, kb in memory))


if __name__ == "__main__":
    main()
