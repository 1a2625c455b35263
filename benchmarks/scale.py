"""How long an archive takes to open, and what it takes in memory, by the number of its variants.

    python benchmarks/scale.py [10000 100000]

Begins a run of archives/landscape (SIMULATION), writes its ledger on as if it had gone on to that many variants, and
resumes it in a process of its own: both chains computed, every row folded, columns laid, the next parent drawn. Told:
the time until that ticket has begun, the memory it took beyond the imports, and the time of a draw by each rule.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio

import harness
from harness.archive import schema
from harness.archive.ledger import link
from harness.archive.sqlite import SqliteArchive
from harness.events import TicketStarted
from harness.policy.schema import SelectPolicy
from harness.repo.objects import encode
from harness.repo.store import FOLDER_NAME, TreeStore
from harness.research.cross_check import fold
from harness.research.parents import make_rule
from harness.research.population import Change, Member, Population
from harness.streams import stream
from harness.testing.landscape import FILE
from harness.tree import File, Tree

LANDSCAPE = Path(__file__).parents[1] / "archives" / "landscape"
RULES = ("dgm", "hyperagents", "hgm", "uniform", "greedy")
DRAWS = 50


def tree_of(ticket: int) -> Tree:
    return Tree({FILE: File(f"made-by-ticket-{ticket}\n".encode())})


def bodies(first: int, last: int) -> Iterator[dict]:
    """Ticket bodies as the landscape's runs have them."""
    rng = stream(0, "scale")
    for ticket in range(first, last + 1):
        parent, score = f"v{int(rng.integers(ticket))}", round(float(rng.random()) * 0.2, 10)
        tree, _ = encode(tree_of(ticket))
        screen = {"candidate": score, "incumbent": 0.2, "gain": score - 0.2, "needed": 0}
        reason = "it functions: archived as a possible parent"
        made = {"id": f"v{ticket}", "ticket": ticket, "parents": [parent], "score": score, "wins": score}
        yield {
            "ticket": ticket,
            "parent": parent,
            "proposal": {"tree": tree, "status": "proposed", "note": "toggle plan", "memo": {}, "violations": []},
            "rollouts": [
                {
                    "key": f"0/screen/visible/0/{tree}",
                    "seed": 1,
                    "status": "ok",
                    "score": score,
                    "items": "",
                    "outputs": "",
                }
            ],
            "score": score,
            "reference": score,
            "decision": {"verdict": "archived", "reason": reason, "evidence": {"screen": screen}},
            "variant": {"id": f"v{ticket}", "tree": tree, "parents": [parent], "verdict": "archived", "score": score},
            "incumbent": "v0",
            "archive": {"fingerprint": f"{ticket:064x}", "member": {**made, "losses": 1.0 - score}},
        }


async def begin(runs: Path, count: int) -> Path:
    """A run of `count` variants, the first decided by nobody: it was stopped before."""
    overrides = {"budget.steps": count + 2, "budget.rollouts": count + 100}
    async with harness.open_run(LANDSCAPE, seed=0, runs=runs, overrides=overrides) as run:
        run.drain()
        async for _ in run.events:
            pass
    archive = await SqliteArchive.open(run.folder)
    first = len(await archive.tickets()) + 1
    assert first == 1, "the run went on before it was stopped"

    def work(connection) -> None:
        head = connection.execute("SELECT seq, hash, seal FROM ledger ORDER BY seq DESC LIMIT 1").fetchone()
        for body in bodies(first, count):
            entry = link(head, "ticket", body["ticket"], body, {"at": "2026-01-01T00:00:00Z", "wall_s": 1.0})
            schema.insert(connection, "ledger", schema.LEDGER, schema.ledger_row(entry))
            head = (entry.seq, entry.hash, entry.seal)

    await archive._write(work)
    seq, row_hash, seal = await archive.head_at()
    await archive.aclose()
    store = TreeStore(run.folder / FOLDER_NAME)
    await store.open()
    await store.fill((one for k in range(1, count + 1) for one in encode(tree_of(k))[1].values()), {})
    await store.anchor(row_hash, seal, seq)
    return run.folder


def memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def measure(folder: Path) -> None:
    before = memory_mb()
    start, cpu = time.perf_counter(), time.process_time()
    async with harness.resume_run(folder) as run:
        async for event in run.events:
            if isinstance(event, TicketStarted):
                break
        wall, used = time.perf_counter() - start, time.process_time() - cpu
        memory = memory_mb() - before
        run.drain()
        async for _ in run.events:
            pass
    archive = await SqliteArchive.view(folder)
    standing = await archive.sound_fold(fold)
    await archive.aclose()
    population = Population()
    population.announce(Change(0, Member("v0", 0, (), 0.2, 0.2, 0.8)))
    for change in standing.changes:
        population.announce(change)
    population.until(standing.done)
    size = (folder / "run.db").stat().st_size / 2**20
    print(
        f"{len(population.ids):>7} variants: open {wall:.2f} s ({used:.2f} s of processor time), {memory:.0f} MB, "
        f"{size:.0f} MB on disk, load {os.getloadavg()[0]:.0f}",
        flush=True,
    )
    for name in RULES:
        rule, rng = make_rule(SelectPolicy(rule=name)), stream(0, "draw")
        start, cpu = time.perf_counter(), time.process_time()
        for _ in range(DRAWS):
            rule.draw(population, rng)
        wall, used = time.perf_counter() - start, time.process_time() - cpu
        each = f"{1000 * wall / DRAWS:.2f} ms ({1000 * used / DRAWS:.2f} ms of processor time)"
        print(f"        a draw by {name}: {each}", flush=True)


def main() -> None:
    """Measure each size in turn."""
    if len(sys.argv) == 3 and sys.argv[1] == "--measure":
        anyio.run(measure, Path(sys.argv[2]))
        return
    for count in [int(word) for word in sys.argv[1:]] or [10_000, 100_000]:
        with tempfile.TemporaryDirectory() as name:
            folder = anyio.run(begin, Path(name), count)
            subprocess.run([sys.executable, __file__, "--measure", str(folder)], check=True)


if __name__ == "__main__":
    main()
