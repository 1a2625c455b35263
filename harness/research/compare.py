"""Several agents on one subject at equal budgets and paired seeds, judged on the vault alone.

Every cell is a run of its own with its own ledger, kept under a name that says which; a comparison that was interrupted
goes on where it stood, and one that is asked for again is read from its runs.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio

from harness.errors import InputError
from harness.records import Json
from harness.research.evidence.statistics import student_quantile
from harness.research.opening import plan
from harness.research.run import open_run, resume_run
from harness.research.summary import summarize

FEWEST_SEEDS = 2
CONTROLS = ("none", "random_parent", "fixed_agent")


@dataclass(frozen=True, slots=True)
class Contender:
    """An agent with its own settings, as it is named on the command line: `gepa` or `gepa,merge_every=6`.

    Without a name it is the policy's own agent. `control` takes one thing away from an archive, or nothing.
    """

    label: str
    agent: str
    config: Mapping[str, object]
    control: str = ""

    def overrides(self) -> dict[str, object]:
        """The policy keys that set it apart."""
        found: dict[str, object] = {f"agent.config.{key}": value for key, value in self.config.items()}
        named = {"agent.name": self.agent, "archive.control": self.control}
        return {**{key: value for key, value in named.items() if value}, **found}


@dataclass(frozen=True, slots=True)
class Cell:
    """One run. Scores are as the metric says; None where the vault could not be scored or there is none.

    `selected` is the best variant's score on the data it was chosen on, `root` the root's on the vault.
    """

    label: str
    seed: int
    run: str
    vault: float | None
    root: float | None
    selected: float | None
    rollouts: float
    tokens: float
    wall_s: float


def contender(text: str) -> Contender:
    """Read `NAME` or `NAME,key=value,...`. Raises InputError."""
    import tomllib  # noqa: PLC0415  only where settings are given

    name, *settings = text.split(",")
    config: dict[str, object] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise InputError(f"{setting!r} is not key=value", file="--agent", mend="as in --agent gepa,merge_every=6")
        try:
            config[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            config[key.strip()] = value.strip()
    return Contender(text, name.strip(), config)


def under_control(one: Contender | None, control: str) -> Contender:
    """The same agent, or the policy's own, with one thing taken away. Raises InputError for an unknown control."""
    control = control.replace("-", "_")
    if control not in CONTROLS:
        raise InputError(f"{control!r} is no control", file="--control", mend=f"one of {', '.join(CONTROLS)}")
    if one is None:
        return Contender(control, "", {}, control)
    return Contender(f"{one.label},{control}", one.agent, one.config, control)


async def compare(
    subject: Path,
    contenders: Sequence[Contender],
    seeds: Sequence[int],
    *,
    overrides: Mapping[str, object],
    runs: Path,
    policy: str | None = None,
    workers: int | None = None,
    told: Callable[[Cell], None] | None = None,
) -> list[Cell]:
    """Run what is not yet run, one run after the other; every cell, contender by contender.

    Raises as `open_run`, for every contender before any of them is run.
    """
    if len({one.label for one in contenders}) < len(contenders) or len(set(seeds)) < len(seeds):
        raise InputError("an agent or a seed is named twice", mend="name each once")
    for one in contenders:  # what the last of them lacks is said before the first has spent anything
        chosen = {**overrides, **one.overrides()}
        await plan(subject, seed=seeds[0], workers=workers, use=policy, overrides=chosen)
    cells: list[Cell] = []
    for seed in seeds:
        for one in contenders:
            chosen = {**overrides, **one.overrides()}
            name = run_name(subject, one, seed, chosen, policy=policy, workers=workers)
            summary = await _summary(subject, runs / name, seed, chosen, policy=policy, workers=workers)
            cells.append(cell_of(one.label, seed, summary))
            if told is not None:
                told(cells[-1])
    order = {one.label: place for place, one in enumerate(contenders)}
    return sorted(cells, key=lambda cell: (order[cell.label], cell.seed))


def run_name(
    subject: Path, one: Contender, seed: int, chosen: Mapping[str, object], *, policy: str | None, workers: int | None
) -> str:
    """The cell's run id: the same for the same question, another for any other."""
    asked = repr((str(subject), sorted((key, repr(value)) for key, value in chosen.items()), policy, workers))
    digest = hashlib.sha256(asked.encode()).hexdigest()[:8]
    return f"compare-{re.sub(r'[^A-Za-z0-9._-]+', '-', one.label)[:50]}-{digest}-s{seed}"


async def _summary(
    subject: Path, folder: Path, seed: int, chosen: Mapping[str, object], *, policy: str | None, workers: int | None
) -> Mapping[str, Any]:
    if await anyio.Path(folder).exists():
        summary = await summarize(folder)
        if summary["state"] == "finished":
            return summary
        async with resume_run(folder) as run:
            async for _ in run.events:
                pass
        return run.summary
    async with open_run(
        subject, seed=seed, workers=workers, policy=policy, overrides=chosen, runs=folder.parent, run_id=folder.name
    ) as run:
        async for _ in run.events:
            pass
    return run.summary


def cell_of(label: str, seed: int, summary: Mapping[str, Any]) -> Cell:
    """A cell out of a run's summary."""
    vault: Mapping[str, Any] = summary.get("vault") or {}
    budget: Mapping[str, Any] = summary["budget"]
    best, root = (cast("Mapping[str, Any]", vault.get(which) or {}) for which in ("best", "root"))
    tokens = sum(float(budget[kind]["used"]) for kind in ("tokens_in", "tokens_out") if kind in budget)
    incumbent: Mapping[str, Any] = summary.get("incumbent") or {}
    return Cell(
        label,
        seed,
        str(summary["run_id"]),
        best.get("metric"),
        root.get("metric"),
        incumbent.get("metric"),
        float(budget["rollouts"]["used"]),
        tokens,
        float(budget["wall_s"]["used"]),
    )


def table(cells: Sequence[Cell]) -> list[dict[str, Json]]:
    """One row a contender, means over its runs; `selected` is the score where a winner was chosen, `difference` is the
    paired one to the first on the vault with a 95 % interval, `selection_gap` is `selected` minus the vault's."""
    labels = list(dict.fromkeys(cell.label for cell in cells))
    first = {cell.seed: cell.vault for cell in cells if cell.label == labels[0]}
    rows: list[dict[str, Json]] = []
    for label in labels:
        mine = [cell for cell in cells if cell.label == label]
        vaults = [cell.vault for cell in mine if cell.vault is not None]
        gaps = [cell.selected - cell.vault for cell in mine if cell.selected is not None and cell.vault is not None]
        pairs = [(cell.vault, first.get(cell.seed)) for cell in mine]
        differences = [one - other for one, other in pairs if one is not None and other is not None]
        rows.append(
            {
                "agent": label,
                "runs": len(mine),
                "vault": {"mean": _mean(vaults), "min": min(vaults, default=None), "max": max(vaults, default=None)},
                "selected": _mean([cell.selected for cell in mine if cell.selected is not None]),
                "root": _mean([cell.root for cell in mine if cell.root is not None]),
                "difference": None if label == labels[0] else _interval(differences),
                "rollouts": _mean([cell.rollouts for cell in mine]),
                "tokens": _mean([cell.tokens for cell in mine]),
                "wall_s": _mean([cell.wall_s for cell in mine]),
                "selection_gap": _mean(gaps),
            }
        )
    return rows


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _interval(values: Sequence[float]) -> Json:
    """The mean with its 95 % t interval over seeds; without an interval for fewer than two."""
    if len(values) < FEWEST_SEEDS:
        return {"mean": _mean(values), "ci": None}
    mean = math.fsum(values) / len(values)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    half = student_quantile(0.975, len(values) - 1) * spread / math.sqrt(len(values))
    return {"mean": mean, "ci": [mean - half, mean + half]}
