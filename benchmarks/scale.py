"""How long an archive takes to open, and what it takes in memory, by the number of its variants.

    python benchmarks/scale.py [10000 100000]

Writes ledgers as a run of archives/landscape would have written them, then opens each as a resumed run does: read every
row, compute both chains again, fold them into the standing, and lay the columns that parents are drawn from.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio

from harness.archive import schema
from harness.archive.audit import collector_paused
from harness.archive.base import LedgerEntry
from harness.archive.ledger import ZEROS, link
from harness.archive.sqlite import SqliteArchive
from harness.policy.schema import Policy, SubjectFile
from harness.research.cross_check import fold
from harness.research.population import Change, Member, Population
from harness.research.select import Dgm
from harness.streams import stream

SUBJECT = {
    "subject": {"name": "landscape", "editable": ["agent.txt"]},
    "eval": {
        "mode": "simulation",
        "world": "harness.testing.landscape:Landscape",
        "run": ["simulated"],
        "metric": "score",
        "direction": "max",
        "range": [0.0, 1.0],
    },
}


def bodies(count: int) -> Iterator[tuple[str, int | None, dict]]:
    """(kind, ticket, body) of a run with `count` archived variants."""
    policy = Policy.model_validate({"archive": {"mode": "keep_all"}, "budget": {"steps": count}})
    file = SubjectFile.model_validate(SUBJECT)
    run = {"subject": file.model_dump(mode="json"), "policy": policy.model_dump(mode="json"), "seed": 0, "workers": 1}
    yield "run", None, {**run, "root_tree": "0" * 40, "pinned": {}, "digests": {}, "locks": [], "version": "0"}
    root = {"rollouts": [], "score": 0.2, "deterministic": True, "noise": 0.0, "holdout": None}
    yield "root", None, {**root, "item_ids": {"visible": []}}
    rng = stream(0, "scale")
    for ticket in range(1, count + 1):
        parent, tree, score = f"v{int(rng.integers(ticket))}", f"{ticket:040x}", round(float(rng.random()) * 0.2, 10)
        cited = {"key": f"0/screen/visible/0/{tree}", "seed": 1, "status": "ok", "score": score, "items": ""}
        yield (
            "ticket",
            ticket,
            {
                "ticket": ticket,
                "parent": parent,
                "proposal": {"tree": tree, "status": "proposed", "note": "toggle plan", "memo": {}, "violations": []},
                "rollouts": [{**cited, "outputs": ""}],
                "score": score,
                "reference": score,
                "decision": {
                    "verdict": "archived",
                    "reason": "it functions: archived as a possible parent",
                    "evidence": {"screen": {"candidate": score, "incumbent": 0.2, "gain": score - 0.2, "needed": 0}},
                },
                "variant": {
                    "id": f"v{ticket}",
                    "tree": tree,
                    "parents": [parent],
                    "verdict": "archived",
                    "score": score,
                },
                "incumbent": "v0",
                "archive": {
                    "fingerprint": f"{ticket:064x}",
                    "member": {
                        "id": f"v{ticket}",
                        "ticket": ticket,
                        "parents": [parent],
                        "score": score,
                        "wins": score,
                    },
                },
            },
        )


async def write(folder: Path, count: int) -> None:
    """A ledger of `count` variants, in one transaction."""
    archive = await SqliteArchive.create(folder)

    def work(connection) -> None:
        head = (0, ZEROS, ZEROS)
        for kind, ticket, body in bodies(count):
            entry: LedgerEntry = link(head, kind, ticket, body, {"at": "2026-01-01T00:00:00Z"})
            schema.insert(connection, "ledger", schema.LEDGER, schema.ledger_row(entry))
            head = (entry.seq, entry.hash, entry.seal)

    await archive._write(work)
    await archive.aclose()


async def measure(folder: Path, count: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, cpu = time.perf_counter(), time.process_time()
    archive = await SqliteArchive.view(folder)
    with collector_paused():
        standing = fold(await archive.sound_ledger())
        population = Population()
        population.announce(Change(0, Member("v0", 0, (), 0.2)))
        for change in standing.changes:
            population.announce(change)
        population.until(count)
    wall, used = time.perf_counter() - start, time.process_time() - cpu
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    rng = stream(0, "draw")
    start = time.perf_counter()
    for _ in range(20):
        Dgm().draw(population, rng)
    draw = (time.perf_counter() - start) / 20
    await archive.aclose()
    size = (folder / "run.db").stat().st_size / 2**20
    print(
        f"{len(standing.variants):>7} variants: open {wall:.2f} s ({used:.2f} s of CPU), {memory:.0f} MB more in "
        f"memory, {size:.0f} MB on disk, a draw {1000 * draw:.2f} ms",
        flush=True,
    )


def main() -> None:
    """Measure each size in turn."""
    for count in [int(word) for word in sys.argv[1:]] or [10_000, 100_000]:
        with tempfile.TemporaryDirectory() as name:
            anyio.run(write, Path(name) / "run", count)
            anyio.run(measure, Path(name) / "run", count)


if __name__ == "__main__":
    main()
