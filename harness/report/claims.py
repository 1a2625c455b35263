"""What a run may claim, each claim with the bound that belongs beside it. The same words in terminal and page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.report.numbers import as_float, change, duration, interval, number, part
from harness.untrusted import line

if TYPE_CHECKING:
    from harness.records import Json


@dataclass(frozen=True, slots=True)
class Claim:
    """One number of root and best. `bound` says how far to trust it; `gain` is relative to the root.

    The intervals are at 95 %, and empty where there are none.
    """

    label: str
    root: str
    best: str
    gain: str
    bound: str
    root_interval: str = ""
    best_interval: str = ""


def claims(summary: Mapping[str, Json]) -> list[Claim]:
    """Visible, then vault: the holdout gives one bit and no number, so it has its own sentence."""
    root, best, vault = part(summary, "root"), part(summary, "incumbent"), part(summary, "vault")
    visible = Claim(
        "visible",
        number(root.get("metric")),
        number(best.get("metric")),
        change(as_float(best.get("metric")), as_float(root.get("metric"))),
        "seen by the search: optimistic",
    )
    opened = [side for side in (part(vault, "root"), part(vault, "best")) if side]
    if len(opened) < 2:
        return [visible]
    before, after = opened
    return [
        visible,
        Claim(
            "vault",
            number(before.get("metric")),
            number(after.get("metric")),
            change(as_float(after.get("metric")), as_float(before.get("metric"))),
            "; ".join(filter(None, [_how(before, after), _paired(part(vault, "gain"))])),
            interval(before.get("ci")),
            interval(after.get("ci")),
        ),
    ]


def holdout_claim(summary: Mapping[str, Json]) -> str:
    """The holdout's verdict with eps, its error bound over all queries, beside it."""
    asked = part(summary, "holdout")
    if not part(summary, "root"):
        return "not asked yet"
    if not asked or asked.get("verdict") == "no holdout":
        return "none: nothing hidden checks the visible numbers"
    verdict = f"{line(str(asked['verdict']))}: " if asked.get("verdict") else ""
    eps = as_float(asked.get("eps"))
    bound = f", eps {eps:.3f}" if eps is not None else ""
    queries = _count(asked.get("queries"), "quer", "y", "ies")
    return f"{verdict}{queries}, {_count(asked.get('surprises'), 'surprise')}{bound}"


def vault_claim(summary: Mapping[str, Json]) -> str:
    """The vault's two numbers with their intervals, or why there are none."""
    vault = part(summary, "vault")
    found = [claim for claim in claims(summary) if claim.label == "vault"]
    if found:
        claim = found[0]
        before, after = f"root {claim.root} {claim.root_interval}", f"best {claim.best} {claim.best_interval}"
        return "  ".join(filter(None, [before.rstrip() + " ->", after.rstrip(), claim.gain, f"({claim.bound})"]))
    if vault.get("why"):
        return f"none: {line(str(vault['why']))}"
    return "not opened yet"


def cost_claim(summary: Mapping[str, Json]) -> str:
    """What was spent of what was allowed."""
    spent: list[str] = []
    for name, used, limit in budget_rows(summary):
        if name == "steps":
            continue
        say = duration if name.endswith("_s") else "{:g}".format
        of = f" of {say(limit)}" if limit is not None else ""
        spent.append(f"{say(used)}{of} {name.removesuffix('_s')}")
    lost = summary.get("lost_rollouts")
    return ", ".join(spent) + (f", {lost} rollouts lost to interruptions" if lost else "")


def budget_rows(summary: Mapping[str, Json]) -> list[tuple[str, float, float | None]]:
    """(name, used, limit) of every budget line."""
    return [
        (name, as_float(usage.get("used")) or 0.0, as_float(usage.get("limit")))
        for name, usage in part(summary, "budget").items()
        if isinstance(usage, dict)
    ]


def mode_claim(summary: Mapping[str, Json]) -> str:
    """How the number came about, and what that cannot promise."""
    if summary.get("mode") == "simulation":
        return "simulation: no code was run, the scores are made up by a simulated world"
    if summary.get("mode") == "inline":
        return "inline: candidate and eval run as one program, so a candidate can change what is measured"
    return "split: a second box, without candidate code, computes the score"


def isolation_claim(summary: Mapping[str, Json]) -> str:
    """The box back end, and what it is not."""
    return line(str(summary.get("isolation") or "not opened yet"))


def _count(value: Json, noun: str, one: str = "", many: str = "s") -> str:
    return f"{value or 0} {noun}{one if value == 1 else many}"


def _how(before: Mapping[str, Json], after: Mapping[str, Json]) -> str:
    reasons = [str(side[key]) for side in (after, before) for key in ("interval", "why") if side.get(key)]
    return line(reasons[0]) if reasons else ""


def _paired(gain: Mapping[str, Json]) -> str:
    mean = as_float(gain.get("mean"))
    if mean is None:
        return ""
    return f"paired gain {mean:.4g} {interval(gain.get('ci'))}"
