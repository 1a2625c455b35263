"""What a noisy gate can see: the gain that one confirmation accepts with power 0.8, and what a smaller one costs.

The confirmation is a one-sided paired t-test on n differences of two runs, each with standard deviation `noise`, so the
differences have s = sqrt(2) times that. Its power is the mean of Phi(gain sqrt(n) / s - t S / s) over the chi
distribution of the sample deviation S, here over fixed draws from a named stream.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from harness.research.evidence.statistics import student_quantile
from harness.streams import stream

POWER = 0.8
_DRAWS = 4_000
_NORMAL = NormalDist()


def power(gain: float, noise: float, alpha: float, pairs: int) -> float:
    """The chance that `pairs` fresh pairs confirm a true `gain`."""
    if noise <= 0:
        return 1.0 if gain > 0 else 0.0
    scale = math.sqrt(2.0) * noise
    shift = gain * math.sqrt(pairs) / scale
    deviations = np.sqrt(stream(0, "power", pairs).chisquare(pairs - 1, _DRAWS) / (pairs - 1))
    limits = shift - student_quantile(1 - alpha, pairs - 1) * deviations
    return float(np.mean([_NORMAL.cdf(float(limit)) for limit in limits]))


def least_gain(noise: float, alpha: float, pairs: int, wanted: float = POWER) -> float:
    """The smallest true gain that is confirmed with the wanted power, to 1 %."""
    if noise <= 0:
        return 0.0
    low, high = 0.0, noise
    while power(high, noise, alpha, pairs) < wanted:
        low, high = high, 2 * high
    while high - low > 0.01 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if power(middle, noise, alpha, pairs) < wanted else (low, middle)
    return high


def pairs_for(noise: float, alpha: float, gain: float, most: int = 64) -> int | None:
    """The fewest pairs that confirm `gain` with the wanted power; None when `most` do not."""
    return next((pairs for pairs in range(2, most + 1) if power(gain, noise, alpha, pairs) >= POWER), None)
