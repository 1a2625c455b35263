"""The few exact statistics a decision rests on, each with its source. Pure; draws come from a named stream."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

DRAWS = 10_000


def student_cdf(t: float, df: int) -> float:
    """P(T <= t) of Student's t with integer `df` >= 1 (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    theta = math.atan(abs(t) / math.sqrt(df))
    cosine, sine = math.cos(theta), math.sin(theta)
    if df % 2:
        term, total = cosine, cosine if df > 1 else 0.0
        for k in range(3, df - 1, 2):
            term *= cosine * cosine * (k - 1) / k
            total += term
        inside = 2 / math.pi * (theta + sine * total)
    else:
        term = total = 1.0
        for k in range(2, df - 1, 2):
            term *= cosine * cosine * (k - 1) / k
            total += term
        inside = sine * total
    return min(1.0, max(0.0, 0.5 + math.copysign(inside / 2, t)))


def student_quantile(p: float, df: int) -> float:
    """The t with student_cdf(t, df) = p, for 0.5 <= p < 1, by bisection to 1e-12 relative."""
    low, high = 0.0, 1.0
    while student_cdf(high, df) < p:
        low, high = high, high * 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, df) < p else (low, middle)
    return high


def lower_bound(differences: Sequence[float], alpha: float) -> float:
    """One-sided lower confidence bound of the mean of paired differences, level 1 - alpha (paired t)."""
    n = len(differences)
    mean = math.fsum(differences) / n
    variance = math.fsum((d - mean) ** 2 for d in differences) / (n - 1)
    return mean - student_quantile(1 - alpha, n - 1) * math.sqrt(variance / n)


def mcnemar(gained: int, lost: int) -> float:
    """Exact one-sided p that `gained` of gained + lost discordant pairs is luck (binomial, one half)."""
    n = gained + lost
    return sum(math.comb(n, k) for k in range(gained, n + 1)) / 2**n


def paired_bootstrap(differences: Sequence[float], rng: np.random.Generator) -> tuple[float, tuple[float, float]]:
    """(p, 95 % interval) of a mean paired difference over items; p = (1 + #{mean <= 0}) / (DRAWS + 1)."""
    values = np.asarray(differences, dtype=np.float64)
    means = np.empty(DRAWS)
    for start in range(0, DRAWS, 500):
        picks = rng.integers(0, len(values), size=(500, len(values)))
        means[start : start + 500] = values[picks].mean(axis=1)
    p = (1 + int((means <= 0).sum())) / (DRAWS + 1)
    low, high = np.quantile(means, [0.025, 0.975])
    return p, (float(low), float(high))


def wilson(mean: float, n: int, z: float = 1.959964) -> tuple[float, float]:
    """95 % Wilson score interval of a proportion `mean` of `n` (Wilson 1927)."""
    centre = (mean + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def holdout_epsilon(queries: int, surprises: int, n: int, delta: float = 0.05) -> float:
    """How far a holdout claim may be off after `queries` one-bit answers with at most `surprises` noes.

    L = ln sum_{i<=B} C(k, i) + ln(2 k / delta); eps = sqrt(L / 2n), metric in [0, 1] over n examples.
    The Ladder (arXiv 1502.04585) and Thresholdout are the references.
    """
    k = max(1, queries)
    transcripts = sum(math.comb(k, i) for i in range(min(surprises, k) + 1))
    return math.sqrt((math.log(transcripts) + math.log(2 * k / delta)) / (2 * n))
