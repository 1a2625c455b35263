"""Pareto selection over instances, after Algorithm 2 of GEPA (arXiv 2507.19457). Pure: scores in, candidates out.

`scores[k][i]` is candidate k on instance i, larger is better, None where there is no score. A candidate *wins* an
instance when none scores higher there; ties are won by all, also at zero; a None wins nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np

from harness.errors import InputError

Scores = Sequence[Sequence[float | None]]


@dataclass(frozen=True, slots=True)
class Front:
    """The surviving candidates in order, and who wins each instance (removed candidates included)."""

    survivors: tuple[int, ...]
    wins: tuple[frozenset[int], ...]

    def frequency(self, candidate: int) -> int:
        """How many instances `candidate` wins."""
        return sum(candidate in winners for winners in self.wins)


def front(scores: Scores) -> Front:
    """Winners of at least one instance, less those whose every win is shared with another survivor.

    Removal goes from the lowest index up. One pass is enough: a removal only makes the others less removable.
    Raises InputError when the rows differ in length.
    """
    instances = len(scores[0]) if scores else 0
    if any(len(row) != instances for row in scores):
        raise InputError("candidates are scored on different numbers of instances", mend="score all on the same ones")
    wins = tuple(_winners(scores, instance) for instance in range(instances))
    won: dict[int, list[int]] = {}
    for instance, winners in enumerate(wins):
        for candidate in winners:
            won.setdefault(candidate, []).append(instance)
    left = [len(winners) for winners in wins]  # of each instance's winners, those not removed
    survivors: list[int] = []
    for candidate in sorted(won):
        if all(left[instance] > 1 for instance in won[candidate]):
            for instance in won[candidate]:
                left[instance] -= 1
        else:
            survivors.append(candidate)
    return Front(tuple(survivors), wins)


def pareto_front(score_table: Scores) -> list[int]:
    """The indices of the surviving candidates, in order; empty when nobody has a score.

    Raises InputError for rows of different lengths and for what is neither a finite number nor None.
    """
    return list(front(checked_table(score_table)).survivors)


def checked_table(scores: Scores) -> list[list[float | None]]:
    """The table as lists of floats and None. Raises InputError for anything else in it."""
    mend = "give one row a candidate, one finite number or None an instance"
    try:
        rows = [[_checked(one) for one in row] for row in scores]
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"no table of scores: {error}", mend=mend) from None
    return rows


def _checked(one: object) -> float | None:
    if one is None:
        return None
    if isinstance(one, bool | np.bool_) or not isinstance(one, Real):
        raise TypeError(f"{one!r:.40} is no score")
    value = float(one)
    if not math.isfinite(value):
        raise ValueError(f"{value} is no score: a missing score is None")
    return value


def pareto_weights(scores: Scores) -> list[float]:
    """The chance of each candidate to be selected: instances won over all survivors' wins; zero off the front."""
    found = front(scores)
    kept = set(found.survivors)
    counts = [found.frequency(k) if k in kept else 0 for k in range(len(scores))]
    total = sum(counts)
    return [count / total for count in counts] if total else [0.0] * len(scores)


def pareto_choice(scores: Scores, rng: np.random.Generator) -> int:
    """Draw one candidate by `pareto_weights`; uniformly when nobody has a score. Raises InputError on no candidates."""
    if not scores:
        raise InputError("there is no candidate to select from", mend="score the seed first")
    weights = pareto_weights(scores)
    if not any(weights):
        return int(rng.integers(len(scores)))
    return int(rng.choice(len(scores), p=weights))


def _winners(scores: Scores, instance: int) -> frozenset[int]:
    column = [(row[instance], k) for k, row in enumerate(scores)]
    top = max((score for score, _ in column if score is not None), default=None)
    return frozenset(k for score, k in column if score is not None and score == top)
