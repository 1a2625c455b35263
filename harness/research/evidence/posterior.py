"""What is known of a share of tasks: Beta(1 + solved, 1 + failed), its mean and interval, and what is still possible.

Pure. The incomplete beta function is the continued fraction of Numerical Recipes 6.4, by Lentz's method.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_TINY = 1e-300
_ROUNDS = 500


@dataclass(frozen=True, slots=True)
class Share:
    """Tasks solved and failed so far; a task may count in parts. The prior is uniform."""

    wins: float
    losses: float

    @property
    def mean(self) -> float:
        """The posterior mean: what variants of different depth are compared by."""
        return (1.0 + self.wins) / (2.0 + self.wins + self.losses)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The equal-tailed credible interval."""
        rest = (1.0 - level) / 2
        return self.quantile(rest), self.quantile(1.0 - rest)

    def quantile(self, p: float) -> float:
        """The share below which the posterior has mass `p`, by bisection to 1e-9."""
        low, high = 0.0, 1.0
        while high - low > 1e-9:
            middle = (low + high) / 2
            low, high = (middle, high) if beta_cdf(middle, 1 + self.wins, 1 + self.losses) < p else (low, middle)
        return (low + high) / 2


def beta_cdf(x: float, a: float, b: float) -> float:
    """P(X <= x) of Beta(a, b)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - _log_beta(a, b))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1.0 - front * _fraction(1 - x, b, a) / b


def chance_of(needed: float, left: int, share: Share) -> float:
    """The chance that at least `needed` of `left` more tasks are solved (beta-binomial)."""
    least = max(0, math.ceil(needed - 1e-9))
    if least > left:
        return 0.0
    a, b = 1 + share.wins, 1 + share.losses
    terms = (
        math.exp(_log_choose(left, k) + _log_beta(a + k, b + left - k) - _log_beta(a, b))
        for k in range(least, left + 1)
    )
    return min(1.0, math.fsum(terms))


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1.0 / _away(1.0 - (a + b) * x / (a + 1))
    total = d
    for m in range(1, _ROUNDS):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / _away(1.0 + step * d)
            c = _away(1.0 + step / c)
            total *= c * d
        if abs(c * d - 1.0) < 1e-14:
            break
    return total


def _away(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
