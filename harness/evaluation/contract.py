"""What an evaluation is: one variant on one split with one seed becomes one outcome."""

from __future__ import annotations

from typing import Protocol

from harness.records import Outcome, Split
from harness.tree import Tree

MAX_OUTPUT_BYTES = 64 * 1024 * 1024
SEED_VARIABLE = "STROP_SEED"


class Evaluation(Protocol):
    """A way to run and score a variant. Stateless; safe to call concurrently."""

    async def rollout(self, tree: Tree, split: Split, seed: int) -> Outcome:
        """Run `tree` on `split`. Failures of the candidate are outcomes; failures of the machine raise InfraError."""
        ...
