"""Combee's arithmetic for learning in parallel (arXiv 2604.04247): how to group records, how large a batch to take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def groups(records: Sequence[T], rng: np.random.Generator, copies: int = 2) -> list[list[T]]:
    """floor(sqrt n) groups over `copies` shuffled copies of n records: each is read in several contexts."""
    if not records:
        return []
    many = [record for _ in range(copies) for record in records]
    shuffled = [many[int(k)] for k in rng.permutation(len(many))]
    k = max(1, math.isqrt(len(records)))
    return [shuffled[n::k] for n in range(k)]


def fit_delay(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """(A, alpha) of epoch seconds = A * batch^-alpha, by least squares on logs. Needs two different batch sizes."""
    x = np.log([batch for batch, _ in points])
    y = np.log([seconds for _, seconds in points])
    slope, level = np.polyfit(x, y, 1)
    return float(np.exp(level)), float(-slope)


def batch_size(a: float, alpha: float, tau: float, most: int) -> int:
    """Where a larger batch saves less than `tau` seconds a record: (alpha A / tau)^(1 / (alpha + 1)), in [1, most]."""
    if alpha <= 0 or a <= 0:
        return 1
    return max(1, min(most, round((alpha * a / tau) ** (1 / (alpha + 1)))))
