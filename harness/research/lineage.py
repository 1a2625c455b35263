"""Who descends from whom, and how each line of descent did: questions to a finished run or a live one.

Evidence is tasks solved and failed (a metric without tasks counts as one, in parts); a clade is a variant with all its
descendants, each counted once however many ways lead there. Shares are posteriors, never raw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.archive.base import LedgerEntry
from harness.archive.sqlite import SqliteArchive
from harness.errors import InputError
from harness.records import Json, Outcome, RolloutKey, Split, Status, Variant
from harness.research.cross_check import fold
from harness.research.evidence.posterior import Share
from harness.research.placing import evidence
from harness.research.standing import ROOT, Standing
from harness.untrusted import line


@dataclass(frozen=True, slots=True)
class Evidence:
    """Tasks solved of those run, the posterior's mean and its 95 % interval."""

    solved: float
    run: float
    mean: float
    interval: tuple[float, float]

    @classmethod
    def of(cls, solved: float, failed: float) -> Evidence:
        share = Share(solved, failed)
        return cls(solved, solved + failed, share.mean, share.interval())


@dataclass(frozen=True, slots=True)
class Kin:
    """One variant among its kin. `score` is as the metric says; `own` is None for one that no parent was drawn by.

    `children` are archived and may be parents; `tried` counts every ticket that changed it. `clade` is how many
    possible parents descend from it, itself among them; `best` is the one with the highest posterior mean there.
    """

    variant: str
    ticket: int
    verdict: str
    parents: tuple[str, ...]
    score: float | None
    note: str
    own: Evidence | None
    children: int
    tried: int
    clade: int
    evidence: Evidence | None
    best: str | None

    def as_json(self) -> dict[str, Json]:
        """For `strop lineage --json`."""
        return asdict(self)


@dataclass
class Lineage:
    """The family tree of a run."""

    variants: dict[str, Variant]
    known: dict[str, tuple[float, float]]
    children: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    tried: dict[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def of(cls, standing: Standing, root: tuple[float, float]) -> Lineage:
        """From a run's standing, and the evidence on its root."""
        known = {ROOT: root} if standing.marks else {}
        for change in standing.changes:
            for member in (*change.again, *([change.member] if change.member is not None else [])):
                known[member.id] = member.wins, member.losses
        lineage = cls(dict(standing.variants), known)
        for variant in standing.variants.values():
            for parent in dict.fromkeys(variant.parents):
                lineage.children.setdefault(parent, []).append(variant.id)
        for attempt in standing.attempts:
            lineage.tried[attempt.parent] = lineage.tried.get(attempt.parent, 0) + 1
        return lineage

    def ancestors(self, name: str) -> list[str]:
        """Every ancestor once, the oldest first. Raises InputError."""
        return self._reached(self._variant(name).id, lambda one: self.variants[one].parents)

    def descendants(self, name: str) -> list[str]:
        """Every descendant once, the oldest first. Raises InputError."""
        return self._reached(self._variant(name).id, lambda one: self.children.get(one, ()))

    def kin(self, name: str) -> Kin:
        """A variant, its children and its clade. Raises InputError."""
        variant = self._variant(name)
        below = [one for one in (name, *self.descendants(name)) if one in self.known]
        own = self.known.get(name)
        sums = tuple(sum(self.known[one][part] for one in below) for part in (0, 1))
        best = max(below, key=lambda one: (Share(*self.known[one]).mean, -self.variants[one].ticket), default=None)
        return Kin(
            variant=name,
            ticket=variant.ticket,
            verdict="root" if name == ROOT else variant.verdict.value,
            parents=variant.parents,
            score=variant.score,
            note=line(variant.note, 300),
            own=None if own is None else Evidence.of(*own),
            children=sum(one in self.known for one in self.children.get(name, ())),
            tried=self.tried.get(name, 0),
            clade=len(below),
            evidence=Evidence.of(*sums) if below else None,
            best=best,
        )

    def clades(self, most: int) -> list[Kin]:
        """The `most` clades with the highest posterior mean (0: all), those of possible parents alone."""
        means = {name: self._clade_mean(name) for name in self.known}
        best = sorted(means, key=lambda name: (-means[name], self.variants[name].ticket))
        return [self.kin(name) for name in (best[:most] if most else best)]

    def _clade_mean(self, name: str) -> float:
        below = [self.known[one] for one in (name, *self.descendants(name)) if one in self.known]
        return Share(sum(wins for wins, _ in below), sum(losses for _, losses in below)).mean

    def _variant(self, name: str) -> Variant:
        found = self.variants.get(name)
        if found is None:
            known = ", ".join(list(self.variants)[-8:])
            raise InputError(f"no variant {line(name, 40)}", key="VARIANT", mend=f"one of the archived: {known}")
        return found

    def _reached(self, start: str, further: Callable[[str], Iterable[str]]) -> list[str]:
        found: set[str] = set()
        ahead = list(further(start))
        while ahead:
            one = ahead.pop()
            if one not in found:
                found.add(one)
                ahead += further(one)
        return sorted(found, key=lambda one: self.variants[one].ticket)


async def lineage_of(folder: Path) -> tuple[Lineage, Standing]:
    """The family tree of the run in `folder`, which may be live. Raises InputError, IntegrityError."""
    archive = await SqliteArchive.view(folder)
    try:
        standing = await archive.sound_fold(fold)
        rows = await archive.frame()
        if not standing.marks:
            raise InputError("its root is not measured yet", file=folder, mend="look again when it is")
        key = RolloutKey(standing.variants[ROOT].tree, Split.VISIBLE, 0, 0, "root")
        outcome = await archive.outcome(str(key))
    finally:
        await archive.aclose()
    return Lineage.of(standing, _root_evidence(rows, standing, outcome)), standing


def _root_evidence(rows: Sequence[LedgerEntry], standing: Standing, outcome: Outcome | None) -> tuple[float, float]:
    root: Any = next(row.body for row in rows if row.kind == "root")
    if "tasks" in root:
        return root["tasks"]["solved"], root["tasks"]["run"] - root["tasks"]["solved"]
    run: Any = next(row.body for row in rows if row.kind == "run")
    settings = run["subject"]["eval"]
    allowed = settings["range"]
    if outcome is None:
        outcome = Outcome(Status.OK, standing.variants[ROOT].score)
    return evidence(outcome, settings["direction"], None if allowed is None else (allowed[0], allowed[1]))


def resolve(standing: Standing, name: str) -> str:
    """`best` and `root` as ids; any other name as it is."""
    return {"best": standing.incumbent.id, "root": ROOT}.get(name, name)
