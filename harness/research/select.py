"""Parent selection: which variant of the archive is changed next. Pure: a pool and a named stream in, an index out.

Scores are larger-is-better (`goodness` turns a minimised metric round). A missing score is nan: such a variant is
selected only when nobody has a score, and then uniformly. Draws are with replacement.

DGM: arXiv 2505.22954, appendix. GEPA: arXiv 2507.19457, Algorithm 2. HGM: clade Thompson sampling. HyperAgents: its
released code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from harness.errors import InputError
from harness.optimizer.pareto import checked_table, front

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Centre = float | Literal["median", "top3"]
_HUGE, _DEEP = 1e300, 1e6


def _no_floats() -> Floats:
    return np.empty(0)


def _no_ints() -> Ints:
    return np.empty(0, np.int64)


class Pool(Protocol):
    """The variants that may be parents, in the order they were archived, as columns of length n.

    `children` counts the archived, functioning variants that name each as a parent. `wins` and `losses` are a
    variant's own evidence in tasks solved and failed, `clade_wins` and `clade_losses` its own and all descendants'.
    `table` is (n, instances), nan where an instance was not run. `revision` changes whenever an old row does.
    """

    @property
    def revision(self) -> int: ...

    @property
    def scores(self) -> Floats: ...
    @property
    def children(self) -> Ints: ...
    @property
    def wins(self) -> Floats: ...
    @property
    def losses(self) -> Floats: ...
    @property
    def clade_wins(self) -> Floats: ...
    @property
    def clade_losses(self) -> Floats: ...
    @property
    def table(self) -> Floats: ...


class Rule(Protocol):
    """A way to select a parent. May keep what it knows of the pool's prefix; pools only grow."""

    def draw(self, pool: Pool, rng: np.random.Generator) -> int:
        """The index of the next parent. Raises InputError when the pool is empty."""
        ...


@dataclass(frozen=True, slots=True)
class Dgm:
    """w = sigmoid(lam (s - alpha0)) / (1 + children).

    `alpha0` is a number, the median of the scores, or the mean of the best three. `exclude_solved` leaves out
    variants whose score is 1 or more, as the paper says and its code does not, while an unsolved one is left.
    """

    lam: float = 10.0
    alpha0: Centre = 0.5
    exclude_solved: bool = False

    def draw(self, pool: Pool, rng: np.random.Generator) -> int:
        return pick(self.probabilities(pool.scores, pool.children), rng)

    def probabilities(self, scores: Floats, children: Floats | Ints) -> Floats:
        """The chance of each; computed from logarithms, so that no weight underflows to a division by zero."""
        good = _log_sigmoid(_steep(self.lam, scores, self.alpha0))
        if len(good) and not np.nanmax(good, initial=-np.inf) > -_DEEP:
            good = good - np.nanmax(good, initial=-np.inf)  # before the children, which such numbers would swallow
        logs = good - np.log1p(children)
        unsolved = scores < 1.0
        if self.exclude_solved and unsolved.any():
            logs = np.where(unsolved, logs, -np.inf)
        return _softmax(logs)


@dataclass(frozen=True, slots=True)
class HyperAgents:
    """w = sigmoid(lam (s - mean of the best three)) * exp(-(children / scale)^3)."""

    lam: float = 10.0
    scale: float = 8.0

    def draw(self, pool: Pool, rng: np.random.Generator) -> int:
        return pick(self.probabilities(pool.scores, pool.children), rng)

    def probabilities(self, scores: Floats, children: Floats | Ints) -> Floats:
        """The chance of each."""
        logs = _log_sigmoid(_steep(self.lam, scores, "top3")) - (children / self.scale) ** 3
        return _softmax(logs)


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every variant alike, whatever its score: the control called random parent."""

    def draw(self, pool: Pool, rng: np.random.Generator) -> int:
        return int(rng.integers(_size(pool)))


@dataclass(frozen=True, slots=True)
class Greedy:
    """The best score; of equals the latest."""

    def draw(self, pool: Pool, rng: np.random.Generator) -> int:
        scores = _known(pool)
        return _size(pool) - 1 - int(np.argmax(scores[::-1]))


@dataclass(frozen=True, slots=True)
class BestOnly:
    """The best score; of equals the earliest: a hill climber that moves on strict improvement only."""

    def draw(self, pool: Pool, rng: np.random.Generator) -> int:
        return int(np.argmax(_known(pool)))


@dataclass(slots=True)
class Pareto:
    """GEPA: survivors of the front over instances, each as often as the number of instances it wins.

    Only the last winner of an instance can survive a removal that goes from the lowest index up, so the best score
    and its last holder, kept per instance, are all a draw needs: its cost does not grow with the pool.
    """

    _done: int = 0
    _revision: int = 0
    _best: Floats = field(default_factory=_no_floats)
    _last: Ints = field(default_factory=_no_ints)

    def draw(self, pool: Pool, rng: np.random.Generator) -> int:
        size = _size(pool)
        if pool.revision != self._revision:
            self._done, self._revision = 0, pool.revision
        survivors, counts = self.survivors(pool.table)
        return survivors[pick(np.array(counts, np.float64), rng)] if survivors else int(rng.integers(size))

    def survivors(self, table: Floats) -> tuple[list[int], list[int]]:
        """The front in order, and how many instances each of it wins."""
        self._advance(table)
        alive: list[int] = []
        for candidate in sorted({int(k) for k in self._last if k >= 0}):
            mine = self._last == candidate
            taken = (table[alive] == self._best).any(axis=0) if alive else np.zeros(len(self._best), np.bool_)
            if (mine & ~taken).any():
                alive.append(candidate)
        return alive, [int((table[k] == self._best).sum()) for k in alive]

    def _advance(self, table: Floats) -> None:
        best, last = self._best, self._last
        if len(best) != table.shape[1] or not self._done:
            self._done = 0
            best = np.full(table.shape[1], -np.inf)
            last = np.full(table.shape[1], -1, np.int64)
        new: Floats = np.where(np.isnan(table[self._done :]), -np.inf, table[self._done :])
        if len(new):
            top: Floats = new.max(axis=0)
            at = self._done + len(new) - 1 - new[::-1].argmax(axis=0)
            last = np.where((top >= best) & (top > -np.inf), at, last)
            best = np.maximum(best, top)
            self._done = len(table)
        self._best, self._last = best, last


@dataclass(frozen=True, slots=True)
class Hgm:
    """Thompson sampling on clades: the largest draw of Beta(1 + clade wins, 1 + clade losses)."""

    def draw(self, pool: Pool, rng: np.random.Generator) -> int:
        _size(pool)
        return int(np.argmax(rng.beta(1.0 + pool.clade_wins, 1.0 + pool.clade_losses)))

    def measured(self, pool: Pool, rng: np.random.Generator) -> int:
        """The variant to run one more task on: Thompson on each one's own evidence."""
        _size(pool)
        return int(np.argmax(rng.beta(1.0 + pool.wins, 1.0 + pool.losses)))

    @staticmethod
    def expands(evaluations: int, nodes: int, pending: int, exponent: float = 0.6) -> bool:
        """Whether to make a child now instead of measuring one: evaluations^exponent >= nodes - 1 + pending."""
        return evaluations**exponent >= nodes - 1 + pending


def pick(weights: Floats, rng: np.random.Generator) -> int:
    """An index with chance in proportion to its weight, from one uniform draw; uniform when all are zero.

    Raises InputError when there is nothing to pick from or a weight is negative or not a number.
    """
    if not len(weights):
        raise InputError("there is no variant to select from", mend="archive the root first")
    if not (weights >= 0).all():
        raise InputError("a selection weight is negative or not a number", mend="check the scores given")
    sums: Floats = np.cumsum(weights)
    total = float(sums[-1])
    if total <= 0:
        return int(rng.integers(len(weights)))
    # the end of the last stretch with weight, lest rounding picks one without
    last = int(np.searchsorted(sums, total, side="left"))
    return min(int(np.searchsorted(sums, rng.random() * total, side="right")), last)


def dgm_weights(
    scores: Sequence[float | None], children: Sequence[int], lam: float = 10.0, alpha0: Centre = 0.5
) -> list[float]:
    """DGM's weight of each variant: sigmoid(lam (score - alpha0)) / (1 + children); 0 without a score.

    `scores` are larger-is-better; `alpha0` is a number, "median" or "top3". Raises InputError.
    """
    values, counts = _columns(scores, children)
    _check_shape(lam, alpha0)
    logs = _log_sigmoid(_steep(lam, values, alpha0)) - np.log1p(counts)
    return [0.0 if math.isnan(one) else math.exp(one) for one in logs.tolist()]


def dgm_probabilities(
    scores: Sequence[float | None],
    children: Sequence[int],
    lam: float = 10.0,
    alpha0: Centre = 0.5,
    exclude_solved: bool = False,
) -> list[float]:
    """The chance of each variant to be the next parent: its share of the weights.

    Uniform when nobody has a score. `exclude_solved` leaves out scores of 1 while any other is left. Raises InputError.
    """
    values, counts = _columns(scores, children)
    _check_shape(lam, alpha0)
    return Dgm(lam, alpha0, exclude_solved).probabilities(values, counts).tolist()


def pareto_frequencies(score_table: Sequence[Sequence[float | None]]) -> list[int]:
    """How many instances (columns) each candidate (row) on the Pareto front wins; 0 for those off the front."""
    table = checked_table(score_table)
    found = front(table)
    kept = set(found.survivors)
    return [found.frequency(k) if k in kept else 0 for k in range(len(table))]


def goodness(score: float, direction: str, allowed: tuple[float, float] | None) -> float:
    """A metric as larger-is-better: scaled to [0, 1] by its declared range, else only turned round when minimised."""
    if allowed is None:
        return -score if direction == "min" else score
    share = (score - allowed[0]) / (allowed[1] - allowed[0])
    return 1.0 - share if direction == "min" else share


def restored(good: float, direction: str, allowed: tuple[float, float] | None) -> float:
    """What `goodness` was made of."""
    if allowed is None:
        return -good if direction == "min" else good
    return allowed[0] + (1.0 - good if direction == "min" else good) * (allowed[1] - allowed[0])


def _columns(scores: Sequence[float | None], children: Sequence[int]) -> tuple[Floats, Floats]:
    try:
        values, counts = list(scores), list(children)
    except TypeError as error:
        raise InputError(f"no scores and child counts: {error}", mend="give one of each per variant") from None
    if len(values) != len(counts):
        raise InputError(f"{len(values)} scores and {len(counts)} child counts", mend="give one of each per variant")
    if not all(one is None or _finite(one) for one in values):
        raise InputError("a score is a finite number or None", mend="a variant without a score has None")
    if not all(_finite(one) and one >= 0 and float(one).is_integer() for one in counts):
        raise InputError("a child count is a whole number, 0 or more", mend="count archived, functioning children")
    floats = np.array([math.nan if one is None else float(one) for one in values], np.float64)
    return floats, np.array([float(one) for one in counts], np.float64)


def _finite(one: object) -> bool:
    if isinstance(one, bool | np.bool_) or not isinstance(one, Real):
        return False
    try:
        return math.isfinite(float(one))
    except OverflowError:
        return False


def _check_shape(lam: object, alpha0: object) -> None:
    if not _finite(lam) or float(cast("float", lam)) < 0:
        raise InputError(f"{lam!r:.40} is no slope", key="lam", mend="give a finite number, 0 or more")
    if alpha0 not in ("median", "top3") and not _finite(alpha0):
        raise InputError(f"{alpha0!r:.40} is no centre", key="alpha0", mend='give a finite number, "median" or "top3"')


def _steep(lam: float, scores: Floats, alpha0: Centre) -> Floats:
    """lam (s - centre), as near as a float can say it where the numbers are huge."""
    with np.errstate(over="ignore"):
        found = lam * (scores - _centre(scores, alpha0)) if lam else np.where(np.isnan(scores), math.nan, 0.0)
    return np.clip(found, -_HUGE, _HUGE)


def _centre(scores: Floats, alpha0: Centre) -> float:
    if not isinstance(alpha0, str):
        return alpha0
    with np.errstate(over="ignore", invalid="ignore"):
        known = scores[~np.isnan(scores)] if math.isnan(float(scores.sum())) else scores
    if not len(known):
        return 0.0
    if alpha0 == "median":
        return _mean(np.sort(known)[(len(known) - 1) // 2 : len(known) // 2 + 1])
    top = min(3, len(known))
    return _mean(np.partition(known, len(known) - top)[-top:])


def _mean(few: Floats) -> float:
    with np.errstate(over="ignore"):
        mean = float(np.mean(few))
    return mean if math.isfinite(mean) else float((few / len(few)).sum())


def _log_sigmoid(x: Floats) -> Floats:
    with np.errstate(invalid="ignore"):  # nan stays nan
        return -np.logaddexp(0.0, -x)


def _softmax(logs: Floats) -> Floats:
    """Shares of exp(logs); nan counts as nothing, and nothing but nothing as everyone alike."""
    if not len(logs):
        return logs
    logs = np.where(np.isnan(logs), -np.inf, logs)
    top = logs.max()
    if top == -np.inf:
        return np.full(len(logs), 1.0 / len(logs))
    shares = np.exp(logs - top)
    return shares / shares.sum()


def _size(pool: Pool) -> int:
    if not len(pool.scores):
        raise InputError("there is no variant to select from", mend="archive the root first")
    return len(pool.scores)


def _known(pool: Pool) -> Floats:
    _size(pool)
    return np.where(np.isnan(pool.scores), -np.inf, pool.scores)
