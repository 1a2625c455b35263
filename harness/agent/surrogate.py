"""A Gaussian process over settings: which untried combination is worth a ticket.

The kernel is a mean over knobs (each knob matters by itself) plus a product over all of them (what is near is
alike). Scores are squeezed on a log scale from the best one, so that a few disasters do not flatten the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from harness.agent import words
from harness.agent.credit import gain, moves_of
from harness.agent.knobs import Knob, Value
from harness.records import Attempt, Direction, Json, Verdict

Settings = Mapping[str, Json]
_MOST = 250
_LENGTH = 0.8
_WIDE = 3.0
_SINGLE, _JOINT, _NOISE = 0.8, 0.2, 0.03
_DIGITS = 9  # what is compared is rounded, so that no last bit of a BLAS decides a proposal
_UNJUDGED = {Verdict.DUPLICATE, Verdict.NO_PROPOSAL, Verdict.INFRA, Verdict.BLOCKED}


class Surrogate:
    """Beliefs about settings from the scored attempts of a history. `ready` says whether there is enough to go by."""

    def __init__(
        self, found: Sequence[Knob], history: Sequence[Attempt], parent: str, score: float | None, direction: Direction
    ) -> None:
        self._knobs = found
        known = _settings(found, history, parent)
        judged = [one for one in history if one.variant in known and one.verdict not in _UNJUDGED][-_MOST:]
        points: dict[str, float | None] = {str(one.variant): _credited(one, direction) for one in judged}
        for one in judged:  # the root has no attempt of its own
            points.setdefault(one.parent, one.parent_score)
        points.setdefault(parent, score)
        points = {name: value for name, value in points.items() if name in known}
        values = _squeezed(list(points.values()), direction)
        self.ready = sum(value is not None for value in points.values()) >= 4
        if self.ready:
            self._places = self._encode([known[name] for name in points])
            gram = self._kernel(self._places, self._places) + _NOISE * np.eye(len(points))
            self._mean, self._spread = float(values.mean()), float(values.std()) or 1.0
            self._root = np.linalg.cholesky(gram)
            self._weights = np.linalg.solve(gram, (values - self._mean) / self._spread)

    def judge(self, candidates: Sequence[Settings], boldness: float) -> list[float]:
        """Mean plus `boldness` standard deviations for changes to the parent's settings; higher is better."""
        now: dict[str, Json] = {knob.id: knob.value for knob in self._knobs}
        near = self._kernel(self._encode([now | dict(one) for one in candidates]), self._places)
        mean = near @ self._weights
        shrunk = np.linalg.solve(self._root, near.T)
        spread = np.sqrt(np.maximum(_SINGLE + _JOINT - (shrunk**2).sum(axis=0), 0.0))
        return [round(float(one), _DIGITS) for one in mean + boldness * spread]

    def _encode(self, settings: Sequence[Settings]) -> NDArray[np.float64]:
        """Settings as (n, knobs); words become their place among the words seen, which only equality compares."""
        columns: list[list[float]] = []
        for knob in self._knobs:
            vocabulary = [knob.value, *knob.choices] if isinstance(knob.value, str) else []
            columns.append([_place(knob, one.get(knob.id, knob.value), vocabulary) for one in settings])
        return np.array(columns, dtype=np.float64).reshape(len(self._knobs), len(settings)).T

    def _kernel(self, one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
        gap = np.abs(one[:, None, :] - other[None, :, :])
        word = np.array([isinstance(knob.value, str | bool) for knob in self._knobs])
        gap = np.where(word, 1.5 * _LENGTH * (gap > 0), gap)
        single = np.exp(-0.5 * (gap / _LENGTH) ** 2).mean(axis=2)
        joint = np.exp(-0.5 * ((gap / _WIDE) ** 2).sum(axis=2))
        return _SINGLE * single + _JOINT * joint


def _credited(attempt: Attempt, direction: Direction) -> float | None:
    """The score a model should learn. A gain that was refused counts half: whoever refused it saw more than we do."""
    if attempt.verdict is Verdict.DISCARDED and (gain(attempt, direction) or 0.0) > 0:
        assert attempt.score is not None
        assert attempt.parent_score is not None
        return (attempt.score + attempt.parent_score) / 2
    return attempt.score


def _settings(found: Sequence[Knob], history: Sequence[Attempt], parent: str) -> dict[str, dict[str, Json]]:
    """Variant id -> settings, for every variant whose line to the root is made of this agent's own moves."""
    made = {one.variant: one for one in history if one.variant is not None and moves_of(one.memo)}
    root: dict[str, Json] = {knob.id: knob.value for knob in found}
    line, name = set[str](), parent
    while name in made and name not in line:
        line.add(name)
        root |= {str(move["knob"]): move["old"] for move in moves_of(made[name].memo)}
        name = made[name].parent
    known = {name: root}
    for one in history:
        if one.variant in made and one.parent in known:
            known[str(one.variant)] = known[one.parent] | {str(m["knob"]): m["new"] for m in moves_of(one.memo)}
    return known


def _place(knob: Knob, value: Json, vocabulary: Sequence[Value]) -> float:
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        return float(vocabulary.index(value)) if value in vocabulary else -1.0
    if not isinstance(value, int | float) or not math.isfinite(value):
        return 0.0
    if words.is_share(knob.name) and 0.0 < value < 1.0:
        return math.log(value / (1.0 - value))
    return math.copysign(math.log(max(abs(value), 1e-4)), 1.0 if value >= 0 else -1.0) if value else math.log(1e-4)


def _squeezed(scores: Sequence[float | None], direction: Direction) -> NDArray[np.float64]:
    """-log of the distance from the best score, in units of the median distance; no score counts as the worst."""
    sign = 1.0 if direction == "min" else -1.0
    real = [sign * score for score in scores if score is not None and math.isfinite(score)]
    if not real:
        return np.zeros(len(scores))
    worst = max(real)
    loss = np.array([worst if score is None or not math.isfinite(score) else sign * score for score in scores])
    gaps = loss - loss.min()
    usual = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 1.0
    return -np.log1p(5.0 * gaps / usual)
