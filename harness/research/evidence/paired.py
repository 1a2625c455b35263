"""The same examples, two variants: what item-level pairs say, and what must not get worse."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from harness.evaluation.result import GUARD, examples
from harness.policy.honest import GuardTable
from harness.records import Direction, Json, Outcome
from harness.research.evidence.statistics import mcnemar, paired_bootstrap

Gain = Callable[[float, float], float]


def mean_items(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Each item's score averaged over repeats, guard metrics included; empty unless every repeat has the same items."""
    if not outcomes:
        return {}
    first = outcomes[0].items
    if not first or any(outcome.items.keys() != first.keys() for outcome in outcomes):
        return {}
    return {item: math.fsum(outcome.items[item] for outcome in outcomes) / len(outcomes) for item in sorted(first)}


def item_test(
    mine: Mapping[str, float], theirs: Mapping[str, float], gain: Gain, rng: np.random.Generator
) -> dict[str, Json] | None:
    """How sure the items alone are of a gain: exact McNemar for 0/1 scores, a paired bootstrap of the mean else.

    None without items, or when they are not the same. `p` is one-sided.
    """
    own, other = examples(mine), examples(theirs)
    if not own or own.keys() != other.keys():
        return None
    gains = [gain(own[item], other[item]) for item in sorted(own)]
    gained, lost = sum(one > 0 for one in gains), sum(one < 0 for one in gains)
    found: dict[str, Json] = {"examples": len(gains), "gained": gained, "lost": lost}
    if all(value in (0.0, 1.0) for value in (*own.values(), *other.values())):
        return {**found, "test": "mcnemar", "p": mcnemar(gained, lost)}
    p, interval = paired_bootstrap(gains, rng)
    return {**found, "test": "bootstrap", "p": p, "ci": list(interval)}


def averages(score: float, items: Mapping[str, float]) -> bool:
    """Whether a score is the mean of its items."""
    values = examples(items)
    return bool(values) and math.isclose(math.fsum(values.values()) / len(values), score, rel_tol=1e-9, abs_tol=1e-9)


def guard_values(guard: GuardTable, items: Mapping[str, float]) -> float | None:
    """What a guard watches: its metric, or the mean of the items whose ids match; None when there is nothing."""
    if guard.metric is not None:
        return items.get(GUARD + guard.metric)
    watched = [
        value
        for item, value in examples(items).items()
        if any(fnmatch.fnmatchcase(item, pattern) for pattern in guard.items)
    ]
    return math.fsum(watched) / len(watched) if watched else None


def regressed(
    guards: Sequence[GuardTable], mine: Mapping[str, float], theirs: Mapping[str, float], direction: Direction
) -> dict[str, Json]:
    """Every guard that got worse by more than its tolerance: name -> both values. A guard that vanished counts."""
    found: dict[str, Json] = {}
    for guard in guards:
        own, other = guard_values(guard, mine), guard_values(guard, theirs)
        if other is None:
            continue
        way = guard.direction or ("min" if guard.metric else direction)
        worse = None if own is None else (own - other if way == "min" else other - own)
        if worse is None or worse > guard.tolerance + 1e-12:
            found[guard.name] = {"candidate": own, "incumbent": other, "tolerance": guard.tolerance}
    return found
