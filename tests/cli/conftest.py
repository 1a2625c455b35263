"""A small run folder made by hand through the real archive and store: six tickets, one of each common verdict."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from harness.archive.base import Commit, StoredProposal
from harness.archive.sqlite import SqliteArchive
from harness.cli import main
from harness.policy.schema import Policy, SubjectFile
from harness.records import Outcome, RolloutKey, Split, Status, Verdict
from harness.repo.store import FOLDER_NAME, TreeStore
from harness.research.standing import Standing, attempt_of, variant_of
from harness.tree import File, Tree

HOSTILE = '<script>alert("strop")</script> [bold]x[/bold] {{ 7*7 }}'
ROOT_TREE = Tree({"train.py": File(b"RATE = 0.1\nSTEPS = 100\n"), "score.py": File(b"print('score')\n")})
SUBJECT = SubjectFile.model_validate(
    {
        "subject": {"name": "toy subject", "editable": ["train.py"]},
        "eval": {
            "mode": "split",
            "run": ["python", "train.py"],
            "score": ["python", "score.py"],
            "metric": "error",
            "direction": "min",
            "range": [0.0, 1.0],
        },
        "splits": {"visible": "data/visible", "holdout": "data/holdout", "vault": "data/vault"},
    }
)
# (verdict, score, note); v1 and v5 are kept
TICKETS = (
    (Verdict.KEPT, 0.2, "RATE 0.1 -> 0.2"),
    (Verdict.DISCARDED, 0.3, HOSTILE),
    (Verdict.BLOCKED, None, "edit score.py"),
    (Verdict.CRASHED, None, "STEPS 100 -> None"),
    (Verdict.KEPT, 0.125, "STEPS 100 -> 300"),
    (Verdict.DUPLICATE, None, "STEPS 300 -> 300"),
)


async def build_run(folder: Path, *, tickets: int = len(TICKETS), finished: bool = True) -> Path:
    """Write the run; returns its folder."""
    archive = await SqliteArchive.create(folder)
    store = TreeStore(folder / FOLDER_NAME)
    await store.create()
    try:
        root = await store.write(ROOT_TREE)
        await store.keep("root", root)
        await _opening(archive, root)
        standing = Standing("min")
        standing.apply_root(next(row.body for row in await archive.ledger() if row.kind == "root"), root)
        for number, (verdict, score, note) in enumerate(TICKETS[:tickets], start=1):
            await _ticket(archive, store, standing, number, verdict, score, note)
        if finished:
            await archive.append("stop", {"reason": "steps", "detail": "all taken"}, {"at": "2026-01-01T01:00:00"})
            await archive.append("vault", _vault(standing.incumbent.id), {"at": "2026-01-01T01:00:01"})
        reason = "steps: all taken" if finished else "interrupted: stopped by request"
        await archive.append("session", None, {"event": "end", "reason": reason})
        entry = (await archive.ledger())[-1]
        await store.anchor(entry.hash, entry.seal, entry.seq)
    finally:
        await archive.aclose()
    return folder


async def _opening(archive: SqliteArchive, root: str) -> None:
    run = {
        "subject": SUBJECT.model_dump(mode="json"),
        "policy": Policy().model_dump(mode="json"),
        "seed": 7,
        "workers": 2,
        "root_tree": root,
        "pinned": {},
        "digests": {"root": ROOT_TREE.digest},
        "locks": [],
        "version": "0.1.0",
    }
    await archive.append("run", run, {"at": "2026-01-01T00:00:00"})
    await archive.append("session", None, {"event": "start", "isolation": "embedded", "reason": ""})
    body = {
        "rollouts": [],
        "score": 0.25,
        "deterministic": True,
        "noise": 0.0,
        "holdout": 0.26,
        "item_ids": {"visible": ["a", "b"], "holdout": [f"h{number}" for number in range(400)]},
    }
    await archive.append("root", body, {"at": "2026-01-01T00:00:01"})


async def _ticket(
    archive: SqliteArchive,
    store: TreeStore,
    standing: Standing,
    number: int,
    verdict: Verdict,
    score: float | None,
    note: str,
) -> None:
    parent = standing.incumbent
    refused = verdict is Verdict.BLOCKED
    source = f"RATE = {0.1 * (number + 1):.1f}\nSTEPS = {100 * number}\n"
    if number == 2:
        source += "# </pre><script>alert(1)</script>\n"
    tree = None if refused else await store.write(ROOT_TREE.changed({"train.py": source.encode()}))
    violations = ("score.py: changed, but not editable",) if refused else ()
    status = "refused" if refused else "proposed"
    await archive.store_proposal(StoredProposal(number, parent.id, tree, note, {}, violations, status))
    if tree is not None and verdict is not Verdict.DUPLICATE:
        key = RolloutKey(tree, Split.VISIBLE)
        await archive.begin_rollout(key, 11)
        ended = Status.AGENT_ERROR if verdict is Verdict.CRASHED else Status.OK
        detail = "Traceback: \x1b[31mred" if verdict is Verdict.CRASHED else ""
        await archive.finish_rollout(key, Outcome(ended, score, detail=detail, wall_s=1.5))
    name = f"v{number}" if tree is not None and verdict is not Verdict.DUPLICATE else None
    kept = verdict is Verdict.KEPT
    evidence = {"screen": {"candidate": score, "incumbent": standing.reference[parent.id]}}
    if kept:
        evidence["holdout"] = {"asked": True, "passed": True, "score": 0.2}
    body = {
        "ticket": number,
        "parent": parent.id,
        "proposal": {"tree": tree, "status": status, "note": note, "memo": {}, "violations": list(violations)},
        "rollouts": [],
        "score": score,
        "reference": score,
        "decision": {
            "verdict": verdict.value,
            "reason": "better, and the gain holds" if kept else f"{verdict.value} for a reason",
            "evidence": evidence,
        },
        "variant": name
        and {"id": name, "tree": tree, "parents": [parent.id], "verdict": verdict.value, "score": score},
        "incumbent": name if kept else parent.id,
    }
    obs = {"at": f"2026-01-01T00:00:{number + 1:02}", "wall_s": 1.5 * number}
    await archive.commit(Commit(number, body, obs, variant_of(body), attempt_of(body, parent.score)))
    standing.apply_ticket(body)
    if name is not None and tree is not None:
        await store.keep(f"variants/{name}", tree)


def _vault(best: str) -> dict[str, object]:
    how = "95 % Wilson over 360 examples"
    return {
        "rollouts": [],
        "root": {"id": "v0", "metric": 0.26, "ci": [0.22, 0.31], "interval": how},
        "best": {"id": best, "metric": 0.13, "ci": [0.1, 0.17], "interval": how},
        "gain": {"mean": 0.13, "ci": [0.09, 0.17], "p_bootstrap": 0.0001},
    }


@dataclass(frozen=True)
class Said:
    """What a command did."""

    code: int
    out: str
    err: str


@pytest.fixture
def strop(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run one command in this process, through the real entry point."""

    def call(*words: object) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(word) for word in words])
        out, err = capsys.readouterr()
        return Said(int(left.value.code or 0), out, err)

    return call


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs in its own folder, without the environment of whoever started it."""
    monkeypatch.chdir(tmp_path)
    for name in ("STROP_RUNS", "STROP_DEBUG", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def build() -> Callable[..., Awaitable[Path]]:
    """`build_run`, for tests that want another run than the finished one."""
    return build_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder of runs with one finished run, `toy-1`."""
    anyio.run(build_run, tmp_path / "runs" / "toy-1")
    return tmp_path / "runs"
