"""Finished runs against each other: the best of each, paired example by example on the vault, or the holdout, that
they all share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.archive.sqlite import SqliteArchive
from harness.errors import InputError
from harness.records import Json, Outcome, Split
from harness.research.evidence.paired import mean_items
from harness.research.evidence.statistics import mcnemar, paired_bootstrap, student_quantile, wilson
from harness.streams import stream

FEWEST = 2


@dataclass(frozen=True, slots=True)
class Finished:
    """A run's last word: its best variant, example by example, and what it was a run of.

    `labels` is the digest of the answers it was judged by.
    """

    name: str
    best: str
    direction: str
    labels: str
    items: Mapping[str, float]
    control: str


async def finished(folder: Path, split: Split = Split.VAULT) -> Finished:
    """Raises InputError for a run that is not over, or whose scorer gave no scores by example."""
    archive = await SqliteArchive.view(folder)
    try:
        rows = await archive.sound_ledger()
        rollouts = await archive.rollouts()
    finally:
        await archive.aclose()
    bodies: dict[str, Any] = {row.kind: row.body for row in rows if row.body is not None and row.kind != "ticket"}
    vault: Any = bodies.get("vault")
    if vault is None:
        raise InputError("is not over", file=folder, mend="let it finish: `strop resume`")
    if vault["best"] is None and split is Split.VAULT:
        raise InputError("ended without a vault", file=folder, mend="compare on the holdout: --on holdout")
    tickets: list[Any] = [row.body for row in rows if row.kind == "ticket"]
    best = tickets[-1]["incumbent"] if tickets else "v0"
    trees = {"v0": bodies["run"]["root_tree"]}
    trees |= {made["id"]: made["tree"] for body in tickets if (made := body["variant"]) is not None}
    outcomes: list[Outcome] = [
        outcome
        for key, _, outcome in rollouts
        if key.split is split and key.tree == trees[best] and outcome is not None and not key.example
    ]
    items = mean_items(outcomes)
    if not items:
        mend = "let the scorer write `items`, and give the subject such a split"
        raise InputError(f"its best has no scores by example on {split}", file=folder, mend=mend)
    run = bodies["run"]
    control = run["policy"].get("archive", {}).get("control", "none")
    settings = run["subject"]["eval"]
    return Finished(folder.name, best, settings["direction"], run["digests"].get(f"{split}.labels", ""), items, control)


def against(first: Finished, other: Finished) -> dict[str, Json]:
    """How much better `other` is than `first`, in the mean over examples: 95 % bootstrap interval, exact p for 0/1.

    Raises InputError unless both were judged on the same examples.
    """
    if first.labels != other.labels or first.items.keys() != other.items.keys():
        raise InputError(f"{other.name} was judged on others than {first.name}", mend="compare runs of one subject")
    if first.direction != other.direction:
        raise InputError(f"{other.name} goes another way than {first.name}", mend="compare runs of one metric")
    sign = -1.0 if first.direction == "min" else 1.0
    gains = [sign * (other.items[one] - first.items[one]) for one in sorted(first.items)]
    p, interval = paired_bootstrap(gains, stream(0, "paired", first.name, other.name))
    told: dict[str, Json] = {
        "run": other.name,
        "best": other.best,
        "control": other.control,
        "mean": _mean(list(other.items.values())),
        "interval": _interval(list(other.items.values())),
        "gain": _mean(gains),
        "ci": list(interval),
        "p_bootstrap": p,
        "examples": len(gains),
    }
    if all(gain in (-1.0, 0.0, 1.0) for gain in gains):
        told["p_mcnemar"] = mcnemar(sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains))
    return told


async def compared(folders: Sequence[Path], split: Split = Split.VAULT) -> list[dict[str, Json]]:
    """The first run, and every other one against it. Raises InputError."""
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise InputError("the same run is named twice", mend="compare a run with others")
    first, *others = [await finished(folder, split) for folder in folders]
    head: dict[str, Json] = {"run": first.name, "best": first.best, "control": first.control}
    head["mean"] = _mean(list(first.items.values()))
    head["interval"] = _interval(list(first.items.values()))
    return [head, *(against(first, other) for other in others)]


def _interval(values: Sequence[float]) -> Json:
    """95 %: Wilson where every example is right or wrong, else t; None for a single one that is neither."""
    mean = _mean(values)
    if all(one in (0.0, 1.0) for one in values):
        return list(wilson(mean, len(values)))
    if len(values) < FEWEST:
        return None
    spread = math.sqrt(math.fsum((one - mean) ** 2 for one in values) / (len(values) - 1))
    half = student_quantile(0.975, len(values) - 1) * spread / math.sqrt(len(values))
    return [mean - half, mean + half]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
