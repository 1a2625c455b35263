"""The hidden cross-check: scores in, one bit out. Pure but for the named stream of Thresholdout's noise.

`bit` asks for strict improvement. `ladder` (Blum and Hardt, arXiv 1502.04585) asks for `step` more and remembers
scores rounded to it. `thresholdout` (Dwork and others, arXiv 1506.02629) believes the visible gain unless what the run
has gained on visible in all is further from what it has on the holdout than a noisy threshold; then it answers from the
hidden gain with noise, which must exceed `_SURE` times the noise: noise alone passes once in a hundred.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from harness.evaluation.result import examples
from harness.policy.schema import HoldoutPolicy
from harness.streams import derive

_SURE = 4.0  # P(Laplace(b) > 4 b) = exp(-4) / 2 = 0.009


def bit(
    policy: HoldoutPolicy, hidden: float, visible: float, rng: np.random.Generator, gap: float | None = None
) -> bool:
    """Whether a gain of `hidden` holds, when `visible` was seen. Both positive for better.

    `gap` is how much further the candidate is from the root on visible than on the holdout, `visible` - `hidden` for
    the first gain: gains that are each within the threshold must not add up to more than it.
    """
    if policy.method == "ladder":
        return hidden >= policy.step
    if policy.method == "thresholdout":
        apart = abs(visible - hidden if gap is None else gap)
        if apart <= policy.threshold + rng.laplace(0.0, 4 * policy.noise):
            return visible > 0
        return hidden + rng.laplace(0.0, policy.noise) > _SURE * policy.noise
    return hidden > 0


def remembered(policy: HoldoutPolicy, score: float | None) -> float | None:
    """The score as later queries compare with it: the ladder's are rounded to its step."""
    if score is None or policy.method != "ladder":
        return score
    return round(score / policy.step) * policy.step


def capacity(policy: HoldoutPolicy) -> int:
    """How many surprises there may be in all."""
    return policy.surprises * (policy.parts if policy.then == "rotate" else 1)


def part_now(policy: HoldoutPolicy, surprises: int) -> int | None:
    """Which part is asked after so many surprises; None for the whole."""
    return min(surprises // policy.surprises, policy.parts - 1) if policy.then == "rotate" else None


def part_of(policy: HoldoutPolicy, seed: int, items: Mapping[str, float], part: int) -> dict[str, float]:
    """The items of one part. Which example is in which part is fixed by the run's seed and says nothing about it."""
    order = sorted(examples(items), key=lambda item: derive(seed, "holdout-part", item))
    return {item: items[item] for item in order[part :: policy.parts]}


def part_score(policy: HoldoutPolicy, seed: int, items: Mapping[str, float], part: int) -> float | None:
    """The mean score of one part; None when it has no items."""
    chosen = part_of(policy, seed, items, part)
    return math.fsum(chosen.values()) / len(chosen) if chosen else None
