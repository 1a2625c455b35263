"""What the history says about each way of each knob: a Beta belief that it pays, and how far to step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from harness.agent.moves import opposite
from harness.records import Attempt, Direction, Json, Verdict

_UNJUDGED = {Verdict.DUPLICATE, Verdict.NO_PROPOSAL, Verdict.INFRA}
_BROKEN = {Verdict.CRASHED, Verdict.TIMED_OUT, Verdict.BLOCKED}
_FADE = 0.8
_SHORTEST, _LONGEST = 0.2, 2.3


@dataclass(slots=True)
class Arm:
    """One way of one knob: weights of evidence that it paid and that it did not, and the next stride."""

    paid: float = 0.0
    failed: float = 0.0
    stride: float = 0.0


class Credit:
    """Beliefs from a history. Evidence fades with every kept variant since, because the ground has moved."""

    def __init__(self, history: Sequence[Attempt], direction: Direction, stride: float) -> None:
        self._arms: dict[tuple[str, str], Arm] = {}
        self._stride = stride
        self.seen: set[str] = set()
        self.texts: dict[tuple[str, str], str] = {}
        self.since_kept = 0
        for attempt in history:
            self._read(attempt, direction)

    def arm(self, knob: str, way: str) -> Arm:
        """The evidence about one way of one knob."""
        return self._arms.setdefault((knob, way), Arm(stride=self._stride))

    def _read(self, attempt: Attempt, direction: Direction) -> None:
        self.since_kept += 1
        moves = moves_of(attempt.memo)
        self.seen |= {mark for key in ("from", "tree") if isinstance(mark := attempt.memo.get(key), str)}
        if attempt.verdict in _UNJUDGED:
            return
        found = gain(attempt, direction)
        for move in moves:
            self.texts.setdefault((str(move["knob"]), repr(move["old"])), str(move["was"]))
            self.texts.setdefault((str(move["knob"]), repr(move["new"])), str(move["now"]))
        if attempt.verdict is Verdict.KEPT:
            self._fade()
            self.since_kept = 0
        for move in moves:
            self._judge(str(move["knob"]), str(move["way"]), attempt.verdict, found, 1.0 / len(moves))

    def _fade(self) -> None:
        for arm in self._arms.values():
            arm.paid *= _FADE
            arm.failed *= _FADE

    def _judge(self, knob: str, way: str, verdict: Verdict, gain: float | None, share: float) -> None:
        arm = self.arm(knob, way)
        back = self.arm(knob, turned) if (turned := opposite(way)) else Arm()
        if verdict is Verdict.KEPT:
            arm.paid += share * (1.0 + min(2.0, 4.0 * (gain or 0.0)))
            back.failed += share
            arm.stride = min(arm.stride * 1.3, _LONGEST)
        elif verdict in _BROKEN or gain is None:
            arm.failed += 2.0 * share
            arm.stride = max(arm.stride * 0.6, _SHORTEST)
        elif gain > 0:
            arm.paid += 0.5 * share
            arm.failed += 0.25 * share
        else:
            arm.failed += share
            if gain < 0:
                back.paid += 0.3 * share
                arm.stride = max(arm.stride * 0.6, _SHORTEST)


def gain(attempt: Attempt, direction: Direction) -> float | None:
    """How much better than its parent, relative to the parent's size; None without two scores."""
    if attempt.score is None or attempt.parent_score is None:
        return None
    better = attempt.score - attempt.parent_score
    size = max(abs(attempt.parent_score), abs(attempt.score), 1e-12)
    gain = (better if direction == "max" else -better) / size
    return gain if math.isfinite(gain) else None


def near_misses(history: Sequence[Attempt], direction: Direction, most: int = 12) -> list[list[dict[str, Json]]]:
    """Moves of the latest attempts that beat their parent and were discarded all the same."""
    better = [
        moves
        for one in history
        if one.verdict is Verdict.DISCARDED and (gain(one, direction) or 0.0) > 0 and (moves := moves_of(one.memo))
    ]
    return better[-most:]


def moves_of(memo: dict[str, Json] | object) -> list[dict[str, Json]]:
    """The moves another ask of this agent wrote into a memo; none when the memo is somebody else's."""
    if not isinstance(memo, dict):
        return []
    found = cast("dict[str, Json]", memo).get("moves")
    if not isinstance(found, list):
        return []
    keys = {"knob", "way", "old", "new", "was", "now"}
    return [move for move in found if isinstance(move, dict) and keys <= move.keys()]
