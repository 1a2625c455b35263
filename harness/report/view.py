"""The read model of a run: everything its archive and store know, loaded once, as plain data.

What reports and commands show comes from here. All text that came from a candidate is already encoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.archive.sqlite import SqliteArchive
from harness.errors import InputError
from harness.evaluation.tasks import unbound
from harness.records import Json, Outcome, RolloutKey, Split, Variant, Verdict
from harness.report.claims import brief, rootless, why
from harness.report.numbers import as_float, part
from harness.report.patches import Patches
from harness.research.cross_check import fold
from harness.research.standing import ROOT, Standing
from harness.research.summary import summarize
from harness.untrusted import clean, line

if TYPE_CHECKING:
    from harness.archive.base import LedgerEntry


@dataclass(frozen=True, slots=True)
class TicketView:
    """One decided ticket. `score` is the visible metric, `incumbent` the incumbent after it.

    `evidence` is what the decision rests on, the holdout's part included: it is for people, never for a proposer.
    `at` is when it was decided; `patch` is the unified diff against the parent, encoded and capped. The intervals are
    posteriors', at 95 %: None where the eval is run whole.
    """

    ticket: int
    verdict: Verdict
    parent: str
    variant: str | None
    tree: str | None
    score: float | None
    parent_score: float | None
    note: str
    reason: str
    violations: tuple[str, ...]
    evidence: Mapping[str, Json]
    incumbent: str
    incumbent_score: float | None
    at: str
    patch: str
    interval: tuple[float, float] | None = None
    incumbent_interval: tuple[float, float] | None = None

    @property
    def why(self) -> str:
        """The cause of the decision in one line, from its evidence."""
        return why(self.verdict, self.reason, self.evidence)


@dataclass(frozen=True, slots=True)
class RolloutView:
    """One paid rollout. The score is None when it has none."""

    ticket: int
    purpose: str
    split: Split
    repeat: int
    tree: str
    status: str
    score: float | None
    wall_s: float
    memory_mb: float | None
    detail: str


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as it stands.

    `summary` is what `strop status --json` prints, `run` the ledger's `run` entry, `meta` the notes beside the ledger.
    """

    folder: Path
    summary: Mapping[str, Json]
    run: Mapping[str, Json]
    meta: Mapping[str, Json]
    root: Variant
    best: Variant
    variants: tuple[Variant, ...]
    tickets: tuple[TicketView, ...]
    rollouts: tuple[RolloutView, ...]
    patch: str

    @property
    def run_id(self) -> str:
        return str(self.summary["run_id"])

    @property
    def metric(self) -> str:
        return str(self.summary["metric"])

    @property
    def direction(self) -> str:
        return str(self.summary["direction"])

    @property
    def root_interval(self) -> list[float] | None:
        """The root's at 95 %, where it is known task by task."""
        found = part(self.summary, "root").get("interval")
        return [as_float(one) or 0.0 for one in found] if isinstance(found, list) else None

    def variant(self, name: str) -> Variant:
        """The variant called `name`: an id, `root` or `best`. Raises InputError."""
        if name == "root":
            return self.root
        if name == "best":
            return self.best
        for variant in self.variants:
            if variant.id == name:
                return variant
        known = ", ".join(variant.id for variant in self.variants[-8:])
        raise InputError(
            f"no variant {line(name, 40)} in run {self.run_id}", mend=f"root, best, or one of the archived: {known}"
        )

    def rollouts_of(self, ticket: TicketView) -> list[RolloutView]:
        """What was paid for a ticket: its own rollouts, and the screening run of its tree."""
        return [
            rollout
            for rollout in self.rollouts
            if rollout.ticket == ticket.ticket or (rollout.purpose == "screen" and rollout.tree == ticket.tree)
        ]

    def ticket(self, name: str) -> TicketView | None:
        """The ticket behind a variant's name or `t7`; None for the root. Raises InputError."""
        for ticket in self.tickets:
            if name in (ticket.variant, f"t{ticket.ticket}"):
                return ticket
        variant = self.variant(name)
        return next((ticket for ticket in self.tickets if ticket.variant == variant.id), None)


async def load(folder: Path, *, patches: bool = True) -> RunView:
    """Read a run's folder, without its lock: it may be running. `patches` asks for every ticket's diff.

    Raises InputError when there is no run or its root is not measured yet, IntegrityError for a damaged store.
    """
    archive = await SqliteArchive.view(folder)
    try:
        rows = await archive.ledger()
        rollouts = await archive.rollouts()
        meta = await archive.meta()
    finally:
        await archive.aclose()
    standing = fold(rows)
    summary = await summarize(folder)
    root = standing.variants.get(ROOT)
    if root is None and rootless(summary):
        raise InputError(
            "its root has no score, so nothing was tried",
            file=folder,
            mend="make the subject run and score as it is, then start a new run; `strop status` says what went wrong",
        )
    if root is None:
        raise InputError(
            "its root is not measured yet", file=folder, mend="look again when it is, or `strop resume` it"
        )
    tickets = [row for row in rows if row.kind == "ticket" and row.body is not None]
    between = Patches(folder)
    diffs = await between.of_tickets(tickets, standing.variants) if patches else {}
    whole = await between.between(root.tree, standing.incumbent.tree) if patches else ""
    return RunView(
        folder=folder,
        summary=summary,
        run=next(row.body for row in rows if row.kind == "run" and row.body is not None),
        meta=meta,
        root=root,
        best=standing.incumbent,
        variants=tuple(_encoded(variant) for variant in standing.variants.values()),
        tickets=tuple(_ticket(row, standing, diffs) for row in tickets),
        rollouts=tuple(_rollout(*rollout) for rollout in rollouts),
        patch=whole,
    )


def _ticket(row: LedgerEntry, standing: Standing, diffs: Mapping[int, str]) -> TicketView:
    assert row.body is not None
    assert row.ticket is not None
    number = row.ticket
    attempt = standing.attempts[number - 1]
    proposal = part(row.body, "proposal")
    violations = proposal.get("violations")
    incumbent = standing.marks[number].incumbent
    return TicketView(
        ticket=number,
        verdict=attempt.verdict,
        parent=attempt.parent,
        variant=attempt.variant,
        tree=str(proposal["tree"]) if proposal.get("tree") else None,
        score=attempt.score,
        parent_score=attempt.parent_score,
        note=brief(attempt.note),
        reason=line(attempt.reason, 400),
        violations=tuple(line(str(text)) for text in violations) if isinstance(violations, list) else (),
        evidence=part(part(row.body, "decision"), "evidence"),
        incumbent=incumbent,
        incumbent_score=standing.reference[incumbent],
        at=str(row.obs.get("at", "")),
        patch=diffs.get(number, ""),
        interval=standing.intervals.get(attempt.variant or ""),
        incumbent_interval=standing.intervals.get(incumbent),
    )


def _encoded(variant: Variant) -> Variant:
    return replace(variant, note=brief(variant.note))


def _rollout(key: RolloutKey, _seed: int, outcome: Outcome | None) -> RolloutView:
    return RolloutView(
        ticket=key.ticket,
        purpose=key.purpose,
        split=key.split,
        repeat=key.repeat,
        tree=key.tree,
        status=str(outcome.status) if outcome else "unfinished",
        score=outcome.score if outcome else None,
        wall_s=outcome.wall_s if outcome else 0.0,
        memory_mb=outcome.memory_mb if outcome else None,
        detail=clean(_brief(outcome.detail)) if outcome else "",
    )


def _brief(detail: str) -> str:
    """What a rollout said of itself, less the traces of a whole split's tasks."""
    return detail.partition("\n")[0] if unbound(detail) else detail
