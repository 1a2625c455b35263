"""The tables of `[eval]` that say what an honest gain looks like: guards and plausibility."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from harness.policy.strict import Strict
from harness.records import Direction


class GuardTable(Strict):
    """`[[eval.guard]]`: what must not get worse than the incumbent by more than `tolerance`.

    Either a secondary `metric`, which the result must then hold as a key of its own, or the mean of the examples whose
    ids match the globs in `items`. `direction` is "min" for a metric and the eval's own for items unless it is given.
    """

    metric: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_.\-]{0,63}$")
    items: tuple[str, ...] = ()
    direction: Direction | None = None
    tolerance: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.metric is None) == (not self.items):
            raise ValueError("a guard names either a `metric` or `items`")
        return self

    @property
    def name(self) -> str:
        """What evidence calls it."""
        return self.metric or f"items {' '.join(self.items)}"


class PlausibleTable(Strict):
    """`[eval.plausible]`: what an honest run looks like beside the root's. Only what is declared is checked.

    `min_work` is the least share of the root's processor time. `outputs` must all be written, each with
    `min_bytes` at least. `sums_to_one` names CSV outputs whose numbers add up to 1 in every row; `max_share`
    is the largest share one answer (the last column) may have in any CSV output.
    """

    min_work: float = Field(default=0.0, ge=0, lt=1)
    outputs: tuple[str, ...] = ()
    min_bytes: int = Field(default=1, ge=0)
    sums_to_one: tuple[str, ...] = ()
    max_share: float = Field(default=1.0, gt=0, le=1)


class AnchorTable(Strict):
    """`[[eval.anchor]]`: outputs whose grade is known, for `strop check`; no candidate sees them.

    `outputs` is a folder of the subject that holds what a run would have written to /out for the visible split. It must
    be scored `score`, give or take `tolerance`, or be refused where no score is given.
    """

    outputs: str = Field(min_length=1)
    score: float | None = Field(default=None, allow_inf_nan=False)
    tolerance: float = Field(default=0.0, ge=0)

    @property
    def folder(self) -> str:
        """Where the outputs lie, as a plain relative path."""
        return self.outputs.strip("/").removeprefix("./")
