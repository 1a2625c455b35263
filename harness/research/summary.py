"""What a run comes to, read from its folder by any process at any time: the dictionary of `status --json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from harness.archive.base import LedgerEntry
from harness.archive.lock import holder
from harness.archive.sqlite import SqliteArchive
from harness.errors import InputError
from harness.records import Json, RunState, Split
from harness.research.account import differed, ended, isolation_of, origin_of, sealed_wall_s, state_of, uncommitted_in
from harness.research.cross_check import fold
from harness.research.evidence.statistics import holdout_epsilon
from harness.research.matched import matched_baseline
from harness.research.models import model_account
from harness.research.optimize.course import course_of
from harness.research.outage import awaited
from harness.research.raising import in_force, told
from harness.research.roles import mute_replies, told_apart
from harness.research.standing import ROOT, Standing


async def summarize(folder: Path) -> dict[str, Json]:
    """The run's state, standing, claims and costs. Raises InputError when `folder` holds no run, IntegrityError."""
    archive = await SqliteArchive.view(folder)
    try:
        rows = await archive.ledger()
        counts = await archive.rollout_counts()
        wall = await archive.wall_s()
        models = await model_account(archive, run_limits(rows), rows)
        bodies = _by_kind(rows)
        meta = await archive.meta()
        course = course_of(meta)
        mute = await mute_replies(bodies, archive)
        baseline = await matched_baseline(archive, bodies.get("vault"), fold(rows), differed(rows))
    finally:
        await archive.aclose()
    state, reason = state_of(rows, live=holder(folder) is not None)
    came_from, commit = origin_of(rows)
    found = _account(folder, rows)
    return {
        **found,
        "state": state.value,
        "reason": reason,
        "isolation": isolation_of(rows),
        "subject_folder": came_from,
        "subject_commit": commit,
        "uncommitted": uncommitted_in(rows),
        "baseline": baseline,
        "lost_rollouts": counts.lost,
        **({"waiting": waiting} if (waiting := awaited(meta)) and state is RunState.RUNNING else {}),
        "budget": {
            **_budget(found, counts.finished, sealed_wall_s(rows) if ended(rows) else max(wall, sealed_wall_s(rows))),
            **cast("dict[str, Json]", models["lines"]),
        },
        **({"models": models["roles"]} if models["roles"] else {}),
        **({"model_costs": {"tickets": models["tickets"], "variants": models["variants"]}} if models["roles"] else {}),
        **({"optimizer": {name: course[name] for name in course if name != "heard"}} if course else {}),
        **told_apart(
            bodies,
            cast("dict[str, dict[str, Json]]", models["roles"]),
            cast("dict[str, Json]", course.get("heard") or {}),
            mute,
        ),
    }


def run_limits(rows: Sequence[LedgerEntry]) -> Mapping[str, Json]:
    """The budget of a run as it was raised; empty for a run that was never written down."""
    return in_force(rows)


def _account(folder: Path, rows: Sequence[LedgerEntry]) -> dict[str, Json]:
    bodies = _by_kind(rows)
    if "run" not in bodies:
        raise InputError("the run stopped before it was written down", file=folder, mend="start it anew")
    run = bodies["run"]
    policy, file = {**run["policy"], "budget": in_force(rows)}, run["subject"]
    standing = fold(rows)
    measured = bool(standing.marks)
    incumbent = standing.incumbent if measured else None
    last = standing.marks[-1] if measured else None
    return {
        "run_id": folder.name,
        "folder": str(folder),
        "subject": file["subject"]["name"],
        "mode": file["eval"]["mode"],
        "metric": file["eval"]["metric"],
        "direction": file["eval"]["direction"],
        "seed": run["seed"],
        "workers": policy["schedule"]["workers"],
        "agent": policy["agent"]["name"],
        "deterministic": standing.deterministic if measured else None,
        "noise": standing.noise if measured else None,
        "steps": {"done": standing.done if measured else 0, "limit": policy["budget"]["steps"]},
        "counts": dict(standing.counts),
        "root": _standing_of(standing, ROOT) if measured else None,
        "incumbent": _standing_of(standing, incumbent.id) if incumbent else None,
        "holdout": holdout_claim(standing, policy, file["eval"]["range"]),
        "vault": bodies.get("vault"),
        "rollouts_cited": last.rollouts if last else 0,
        "limits": policy["budget"],
        **({"raised": raises} if (raises := told(rows)) else {}),
        "stop": bodies.get("stop"),
        "ledger_head": rows[-1].hash if rows else "",
        "seal": rows[-1].seal if rows else "",
        "report": str(folder / "report.html"),
    }


def _standing_of(standing: Standing, name: str) -> dict[str, Json]:
    interval = standing.intervals.get(name)
    return {"id": name, "metric": standing.reference[name], **({"interval": [*interval]} if interval else {})}


def _budget(found: Mapping[str, Any], finished: int, wall: float) -> dict[str, Json]:
    limits = found["limits"]
    return {
        "steps": {"used": found["steps"]["done"], "limit": limits["steps"]},
        "rollouts": {"used": finished, "limit": limits["rollouts"]},
        "wall_s": {"used": round(wall, 3), "limit": limits["wall_s"]},
    }


def holdout_claim(standing: Standing, policy: Mapping[str, Any], allowed: Sequence[float] | None) -> dict[str, Json]:
    """What may be said of the holdout: queries, surprises, and eps, how far the claim may be off (delta = .05).

    eps is in units of the metric; there is none for a metric without a declared range.
    """
    asked = policy["holdout"]
    parts = int(asked.get("parts", 3)) if asked.get("then") == "rotate" else 1
    examples = len(standing.item_ids.get(Split.HOLDOUT.value, ())) // parts
    mark = standing.marks[-1] if standing.marks else None
    queries, surprises = (mark.queries, mark.surprises) if mark else (0, 0)
    limit = asked["surprises"] * parts
    width = allowed[1] - allowed[0] if allowed else None
    if not standing.holdout:
        verdict = "no holdout"
    elif surprises >= limit:
        verdict = "worn out"
    else:
        verdict = "holds" if mark and mark.incumbent != ROOT else "not asked" if not queries else "nothing passed"
    return {
        "queries": queries,
        "surprises": surprises,
        "limit": limit,
        "examples": examples,
        "eps": width * holdout_epsilon(queries, limit, examples) if width and queries and examples else None,
        "verdict": verdict,
    }


def _by_kind(rows: Sequence[LedgerEntry]) -> dict[str, Any]:
    return {row.kind: row.body for row in rows if row.body is not None and row.kind != "ticket"}
