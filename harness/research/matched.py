"""What the same budget would have bought without any search: reruns of the root, beside what the run found.

Read from what a run already paid for; nothing is run and nothing is recorded for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import Any, cast

from harness.archive.sqlite import SqliteArchive
from harness.evaluation.result import examples
from harness.records import Json, Outcome, Status
from harness.research.evidence.paired import averages
from harness.research.standing import ROOT, Standing

_NORMAL = NormalDist()
_WHOLE_SPLIT = 5  # parts of a key that names no single example


async def matched_baseline(
    archive: SqliteArchive, vault: Mapping[str, Any] | None, standing: Standing, differed: int
) -> Json:
    """`k` runs of root and best on the vault: `best_of` is what the root comes to when the better of k counts, `on_all`
    what each comes to when the worst of k does; per example where the metric is their mean, else by whole runs (`by`).

    `differed` counts second runs of candidates that did not answer what the first did. `luck` is what the best of as
    many visible reruns of the root as the run took rollouts would have looked like. None until both stand.
    """
    if vault is None or not vault.get("rollouts"):
        return None
    sides = await _sides(archive, vault, standing)
    if any(not side or any(one.status is not Status.OK for one in side) for side in sides.values()):
        return None
    whole = not all(_by_example(side) for side in sides.values())
    better, worse = (min, max) if standing.direction == "min" else (max, min)
    spent = standing.marks[-1].rollouts
    return {
        "k": len(sides["root"]),
        "by": "runs" if whole else "examples",
        "deterministic": standing.deterministic,
        "differed": differed,
        "best_of": _pick(sides["root"], better, whole),
        "on_all": {name: _pick(side, worse, whole) for name, side in sides.items()},
        "luck": {"rollouts": spent, "metric": by_luck(standing, spent)},
    }


def by_luck(standing: Standing, count: int) -> float:
    """The expected best of `count` visible runs of the root, if they are normal (Blom 1958: (n - 3/8) / (n + 1/4))."""
    score = standing.reference[ROOT]
    if standing.deterministic or count < 2:
        return score
    lift = standing.noise * _NORMAL.inv_cdf((count - 0.375) / (count + 0.25))
    return score - lift if standing.direction == "min" else score + lift


async def _sides(archive: SqliteArchive, vault: Mapping[str, Any], standing: Standing) -> dict[str, list[Outcome]]:
    trees = {"root": standing.variants[ROOT].tree, "best": standing.incumbent.tree}
    found: dict[str, list[Outcome]] = {name: [] for name in trees}
    for cited in cast("list[Mapping[str, Any]]", vault["rollouts"]):
        parts = str(cited["key"]).split("/")
        outcome = await archive.outcome(cited["key"]) if len(parts) == _WHOLE_SPLIT else None
        for name, tree in trees.items():
            if outcome is not None and parts[-1] == tree:
                found[name].append(outcome)
    return found


def _by_example(side: Sequence[Outcome]) -> bool:
    same = all(one.items.keys() == side[0].items.keys() for one in side)
    return same and all(one.score is not None and averages(one.score, one.items) for one in side)


def _pick(side: Sequence[Outcome], choose: Callable[[Iterable[float]], float], whole: bool) -> float:
    if whole:
        return choose([one.score for one in side if one.score is not None])
    ids = sorted(examples(side[0].items))
    return math.fsum(choose([one.items[item] for one in side]) for item in ids) / len(ids)
