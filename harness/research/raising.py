"""A run that goes on may have its budgets raised: each raise is a row of the ledger, and nothing else ever changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from harness.archive.base import LedgerEntry
from harness.errors import InputError
from harness.policy.load import override
from harness.policy.schema import Policy
from harness.records import Json

ROW = "budget"
KINDS = ("steps", "rollouts", "wall_s", "requests", "tokens_in", "tokens_out", "usd")
OF_SEARCH = frozenset({"steps", "rollouts"})


def raise_of(policy: Policy, overrides: Mapping[str, object], *, stopped: str = "") -> dict[str, Json]:
    """The ledger's body for raising `policy`'s budget to dotted `overrides`; empty where they are what it has.

    `stopped` is why the search ended, once it did. Raises InputError for anything but a budget that grows.
    """
    for key in overrides:
        table, _, kind = key.partition(".")
        if table != "budget" or kind not in KINDS:
            known = ", ".join(f"budget.{one}" for one in KINDS)
            raise InputError(
                "a run that goes on keeps its policy", file="--set", key=key, mend=f"what may grow: {known}"
            )
    after = override(policy, overrides).budget
    grown: dict[str, Json] = {}
    for kind in (key.partition(".")[2] for key in overrides):
        old, new = getattr(policy.budget, kind), getattr(after, kind)
        if old is None:
            raise InputError("has no limit", file="--set", key=f"budget.{kind}", mend="leave it out")
        if new < old:
            mend = "a run keeps at least the budget it has: give more, or start another run"
            raise InputError(f"{new:.10g} is less than {old:.10g}", file="--set", key=f"budget.{kind}", mend=mend)
        if stopped and kind in OF_SEARCH and new > old:
            mend = "what the vault takes may grow: requests, tokens_in, tokens_out, usd, wall_s"
            raise InputError(f"the search has ended ({stopped})", file="--set", key=f"budget.{kind}", mend=mend)
        if new > old:
            grown[kind] = {"from": old, "to": new}
    return {"raised": grown} if grown else {}


def raised(limits: Mapping[str, Json], body: Mapping[str, Json]) -> dict[str, Json]:
    """`limits` after one such row. Raises ValueError for one that raises nothing, or from what was not there."""
    now = dict(limits)
    rows = cast("Mapping[str, Mapping[str, Any]]", body["raised"])
    for kind, change in rows.items():
        before, after = change["from"], change["to"]
        if kind not in KINDS or now.get(kind) != before or not after > before:
            raise ValueError(f"{kind} goes from {now.get(kind)} up, and the row says from {before} to {after}")
        now[kind] = after
    return now


def in_force(rows: Sequence[LedgerEntry]) -> dict[str, Json]:
    """The budget of a run as its ledger's rows leave it."""
    limits: dict[str, Json] = {}
    for row in rows:
        body: Any = row.body
        if row.kind == "run" and body is not None:
            limits = dict(body["policy"]["budget"])
        elif row.kind == ROW and body is not None:
            limits = raised(limits, body)
    return limits


def told(rows: Iterable[LedgerEntry]) -> list[Json]:
    """Every raise as {"kind", "from", "to", "after"}: after how many tickets."""
    found: list[Json] = []
    done = 0
    for row in rows:
        if row.kind == "ticket" and row.ticket is not None:
            done = row.ticket
        if row.kind == ROW and row.body is not None:
            changes = cast("Mapping[str, Mapping[str, Json]]", row.body["raised"])
            found += [{"kind": kind, **change, "after": done} for kind, change in changes.items()]
    return found
