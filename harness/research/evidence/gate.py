"""The statistical keep decision on visible examples. Pure: scores in, a ruling with its evidence out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.policy.schema import GatePolicy
from harness.records import Direction, Json, Outcome, Status
from harness.research.evidence.statistics import lower_bound

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Ruling:
    """Whether a stage was passed, and every number that says so."""

    passed: bool
    evidence: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True)
class Gate:
    """Keep only what is better beyond luck.

    A deterministic metric needs strict improvement of at least `min_effect`. A noisy one is screened by one run
    and then confirmed on fresh interleaved pairs: the lower bound of the paired difference at alpha / K must
    exceed max(min_effect, 0). Screening scores and past bests never enter a confirmation.
    """

    policy: GatePolicy
    direction: Direction
    deterministic: bool

    def alpha(self, comparison: int) -> float:
        """The level of the t-th comparison (from 1). Over all of them at most the policy's alpha is spent."""
        policy = self.policy
        if policy.spending == "series":
            return policy.alpha * 6 / (math.pi * comparison) ** 2
        return policy.alpha / policy.candidates if comparison <= policy.candidates else 0.0

    def gain(self, candidate: float, incumbent: float) -> float:
        """How much better `candidate` is, positive for better whatever the direction."""
        return incumbent - candidate if self.direction == "min" else candidate - incumbent

    def screen(self, candidate: float, incumbent: float) -> Ruling:
        """One visible run against the incumbent's standing score."""
        gain = self.gain(candidate, incumbent)
        needed = self.policy.min_effect if self.deterministic else 0.0
        evidence: dict[str, Json] = {"candidate": candidate, "incumbent": incumbent, "gain": gain, "needed": needed}
        return Ruling(gain > 0 and gain >= needed - _ROUNDING * abs(needed), evidence)

    def not_worse(self, candidate: float, incumbent: float) -> bool:
        """Whether one run is no worse than the incumbent's score by more than the policy's margin."""
        return self.gain(candidate, incumbent) >= -self.policy.margin - _ROUNDING

    def confirm(
        self, pairs: Sequence[tuple[Outcome, Outcome]], comparison: int = 1, *, simpler: bool = False
    ) -> Ruling:
        """Fresh (candidate, incumbent) pairs, each on one seed. A candidate that fails once is not kept.

        `comparison` numbers the comparisons that alpha is spent on. A `simpler` candidate needs to be no worse than
        the margin instead of better.

        Where only the incumbent failed there is no difference to take; if it failed so often that fewer than two
        pairs are left, a candidate that ran every time is better.
        """
        if any(mine.status is not Status.OK for mine, _ in pairs):
            return Ruling(False, {"failed": sum(mine.status is not Status.OK for mine, _ in pairs)})
        both = [
            (mine.score, theirs.score) for mine, theirs in pairs if mine.score is not None and theirs.score is not None
        ]
        if len(both) < 2:
            return Ruling(True, {"incumbent_failed": len(pairs) - len(both)})
        differences = [self.gain(mine, theirs) for mine, theirs in both]
        alpha = self.alpha(comparison)
        if alpha <= 0:
            return Ruling(False, {"alpha": 0.0, "comparison": comparison, "why": "alpha is spent"})
        bound = lower_bound(differences, alpha)
        needed = -self.policy.margin if simpler else max(self.policy.min_effect, 0.0)
        evidence: dict[str, Json] = {
            "candidate": [mine for mine, _ in both],
            "incumbent": [theirs for _, theirs in both],
            "mean_gain": math.fsum(differences) / len(differences),
            "lower_bound": bound,
            "alpha": alpha,
            "needed": needed,
        }
        return Ruling(bound > needed, evidence)


def noise(scores: Sequence[float]) -> float:
    """Standard deviation of repeated runs of one variant (n - 1 in the denominator)."""
    mean = math.fsum(scores) / len(scores)
    return math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / (len(scores) - 1))
