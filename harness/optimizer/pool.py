"""The candidates an optimizer has, and what they scored. Lives in the JSON state."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.optimizer.admit import fingerprint
from harness.optimizer.base import Example, Result, Texts
from harness.records import Status


class Pool:
    """Candidates by number, 0 the seed. `floor` is what a failed rollout counts for, when the range is declared.

    A failure never leaves the mean: it counts as `floor`, or, without a declared range, puts the candidate behind
    every one that failed less often. An infra error is no measurement at all.
    """

    def __init__(self, entries: Sequence[Mapping[str, Any]] = (), floor: float | None = None) -> None:
        self.entries: list[dict[str, Any]] = [dict(entry) for entry in entries]
        self.floor = floor

    def __len__(self) -> int:
        return len(self.entries)

    def json(self) -> list[dict[str, Any]]:
        """The entries as they go into the state."""
        return [{**entry, "scores": {k: list(v) for k, v in entry["scores"].items()}} for entry in self.entries]

    def add(self, texts: Mapping[str, str], parents: Iterable[int] = ()) -> int:
        """The number of a new candidate."""
        self.entries.append({"texts": dict(texts), "parents": list(parents), "scores": {}})
        return len(self.entries) - 1

    def texts(self, number: int) -> Texts:
        """The candidate's texts."""
        return dict(self.entries[number]["texts"])

    def parents(self, number: int) -> tuple[int, ...]:
        """The candidates it was made from."""
        return tuple(self.entries[number]["parents"])

    def record(self, number: int, results: Iterable[Result]) -> None:
        """Take in measurements; infra errors are none. A failure is kept as None."""
        old: dict[str, list[float | None]] = self.entries[number]["scores"]
        scores = {name: list(values) for name, values in old.items()}
        for result in results:
            if result.status is not Status.INFRA_ERROR:
                scores.setdefault(result.example, []).append(result.score)
        self.entries[number]["scores"] = scores

    def on(self, number: int, examples: Sequence[Example]) -> list[float | None]:
        """One score an example: the mean of its measurements, None where there is none or it failed."""
        scores: dict[str, list[float | None]] = self.entries[number]["scores"]
        row: list[float | None] = []
        for example in examples:
            values = scores.get(example.key, [])
            known = [self.floor if value is None else value for value in values]
            fine = [value for value in known if value is not None]
            row.append(math.fsum(fine) / len(fine) if fine and len(fine) == len(known) else None)
        return row

    def key(self, number: int) -> tuple[float, float]:
        """For sorting, larger is better: (minus failures that no floor covers, mean over all measurements)."""
        return rank([v for values in self.entries[number]["scores"].values() for v in values], self.floor)

    def count(self, number: int) -> int:
        """How many measurements there are."""
        return sum(len(values) for values in self.entries[number]["scores"].values())

    def order(self, numbers: Iterable[int] | None = None) -> list[int]:
        """Candidates from best to worst; equals in the order they came."""
        chosen = range(len(self)) if numbers is None else numbers
        return sorted(chosen, key=lambda number: (*(-part for part in self.key(number)), number))

    def fingerprints(self) -> list[str]:
        """Every candidate's fingerprint."""
        return [fingerprint(entry["texts"]) for entry in self.entries]


def rank(scores: Sequence[float | None], floor: float | None) -> tuple[float, float]:
    """(minus the share of failures not covered by `floor`, mean); worst of all without measurements."""
    known = [floor if score is None else score for score in scores]
    fine = [score for score in known if score is not None]
    if not fine:
        return (-1.0, -math.inf)
    return (-(len(known) - len(fine)) / len(known), math.fsum(fine) / len(fine))


def score_of(results: Sequence[Result], floor: float | None) -> tuple[float, float]:
    """The rank of one batch: failures and timeouts count, infra errors do not."""
    return rank([result.score for result in results if result.status is not Status.INFRA_ERROR], floor)
