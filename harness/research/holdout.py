"""The hidden cross-check: scores in, one bit out. Pure but for the named stream of Thresholdout's noise.

`bit` asks for strict improvement. `ladder` (Blum and Hardt, arXiv 1502.04585) asks for `step` more and remembers
scores rounded to it. `thresholdout` (Dwork and others, arXiv 1506.02629) believes the visible gain unless the hidden
one is further from it than a noisy threshold, and then answers from the hidden one with noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from harness.evaluation.result import examples
from harness.policy.schema import HoldoutPolicy
from harness.streams import derive


def bit(policy: HoldoutPolicy, hidden: float, visible: float, rng: np.random.Generator) -> bool:
    """Whether a gain of `hidden` holds, when `visible` was seen. Both positive for better."""
    if policy.method == "ladder":
        return hidden >= policy.step
    if policy.method == "thresholdout":
        far = abs(visible - hidden) > policy.threshold + rng.laplace(0.0, 4 * policy.noise)
        return (hidden + rng.laplace(0.0, policy.noise) if far else visible) > 0
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
