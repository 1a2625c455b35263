"""What the sealed rows of a ledger say of a run beyond its decisions: how it ended, where, for how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from harness.archive.base import LedgerEntry
from harness.records import Json, RunState


def state_of(rows: Sequence[LedgerEntry], *, live: bool) -> tuple[RunState, str]:
    """(state, reason): finished once the vault is recorded, else running until its session ends or its owner dies."""
    stop: Mapping[str, Any] | None = next((row.body for row in rows if row.kind == "stop"), None)
    if any(row.kind == "vault" for row in rows):
        return RunState.FINISHED, f"{stop['reason']}: {stop['detail']}" if stop else ""
    if ended(rows):
        return RunState.INTERRUPTED, str(_last(rows, "reason"))
    if live:
        return RunState.RUNNING, ""
    return RunState.INTERRUPTED, "its process is gone; `strop resume` goes on"


def ended(rows: Sequence[LedgerEntry]) -> bool:
    """Whether the last session came to its end, whose row tells the wall time exactly."""
    return _last(rows, "event") == "end"


def isolation_of(rows: Sequence[LedgerEntry]) -> str | None:
    """The box back end of the run; if its sessions differed, the weakest of them is named first."""
    told = dict.fromkeys(str(row.obs["isolation"]) for row in rows if "isolation" in row.obs)
    return ", then ".join(sorted(told, key=lambda one: "no isolation" not in one)) or None


def sealed_wall_s(rows: Sequence[LedgerEntry]) -> float:
    """The longest total wall time any sealed row has told, in seconds."""
    told: list[float] = []
    for row in rows:
        wall = row.obs.get("wall_s")
        if isinstance(wall, int | float):
            told.append(float(wall))
    return max(told, default=0.0)


def differed(rows: Sequence[LedgerEntry]) -> int:
    """How many candidates' second runs did not answer what their first one did, under a deterministic metric."""
    evidence: list[Mapping[str, Any]] = [
        cast("Any", row.body)["decision"]["evidence"] for row in rows if row.kind == "ticket" and row.body is not None
    ]
    return sum(one.get("recheck", {}).get("passed") is False for one in evidence)


def origin_of(rows: Sequence[LedgerEntry]) -> tuple[str | None, str | None]:
    """(folder, commit) the subject came from, as the run's first row tells."""
    nothing: Mapping[str, Json] = {}
    obs = next((row.obs for row in rows if row.kind == "run"), nothing)
    folder, commit = obs.get("subject_folder"), obs.get("subject_commit")
    return folder if isinstance(folder, str) else None, commit if isinstance(commit, str) else None


def uncommitted_in(rows: Sequence[LedgerEntry]) -> Json:
    """What of the subject its last commit did not hold when the run began; None for nothing."""
    return next((row.obs.get("uncommitted") for row in rows if row.kind == "run"), None)


def _last(rows: Sequence[LedgerEntry], name: str) -> object:
    return next((row.obs.get(name) for row in reversed(rows) if row.kind == "session"), None)
