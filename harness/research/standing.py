"""Where a run stands: a fold over ledger bodies, the same live and on resume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.records import Attempt, Direction, Variant, Verdict
from harness.research.population import Change, Member, change_of

ROOT = "v0"


@dataclass(frozen=True, slots=True)
class Mark:
    """What stop rules and later tickets read of the moment after one ticket.

    `rollouts` counts those cited so far; `kept_at` is the last ticket with a new incumbent; of the tickets in a row
    without a proposal `idle` counts those for which the agent had none, `failed` those it failed at; `refused` the
    gains in a row that only the holdout refused; `comparisons` those that alpha was spent on.
    """

    incumbent: str
    rollouts: int
    kept_at: int
    queries: int = 0
    surprises: int = 0
    idle: int = 0
    failed: int = 0
    refused: int = 0
    comparisons: int = 0


@dataclass
class Standing:
    """The state every decision reads. `apply_root` and `apply_ticket` are the only ways to change it.

    `marks[k]` is the moment after ticket k; index 0 is the root. `intervals` are posteriors', at 95 %, of variants that
    are run task by task.
    """

    direction: Direction
    workers: int = 1
    deterministic: bool = True
    noise: float = 0.0
    item_ids: dict[str, frozenset[str]] = field(default_factory=dict[str, "frozenset[str]"])
    variants: dict[str, Variant] = field(default_factory=dict[str, Variant])
    reference: dict[str, float] = field(default_factory=dict[str, float])
    holdout: dict[str, float] = field(default_factory=dict[str, float])
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    marks: list[Mark] = field(default_factory=list[Mark])
    first_ticket: dict[str, int] = field(default_factory=dict[str, int])
    counts: Counter[str] = field(default_factory=Counter[str])
    changes: list[Change] = field(default_factory=list[Change])
    members: dict[str, Member] = field(default_factory=dict[str, Member])
    fingerprints: dict[str, int] = field(default_factory=dict[str, int])
    cited: dict[str, int] = field(default_factory=dict[str, int])
    unstable: frozenset[str] = frozenset()
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    _by_tree: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    @property
    def done(self) -> int:
        """The last committed ticket."""
        return len(self.marks) - 1

    @property
    def incumbent(self) -> Variant:
        """The best variant so far."""
        return self.variants[self.marks[-1].incumbent]

    def apply_root(self, body: Mapping[str, Any], tree: str) -> None:
        """Take in the `root` entry."""
        self.deterministic = body["deterministic"]
        self.noise = body["noise"]
        tasks = body.get("tasks")  # task by task, and so a posterior like every child's
        score = body["score"] if tasks is None else tasks["mean"]
        self.variants[ROOT] = Variant(ROOT, 0, tree, (), Verdict.KEPT, score, "the subject as it was given")
        self.reference[ROOT] = score
        if tasks is not None:
            self.intervals[ROOT] = _pair(tasks["interval"])
            self.unstable = frozenset(tasks.get("unstable", ()))
        if body["holdout"] is not None:
            self.holdout[ROOT] = body["holdout"]
        self.item_ids = {split: frozenset(ids) for split, ids in body["item_ids"].items()}
        self.first_ticket[tree] = 0
        self.marks.append(Mark(ROOT, len(body["rollouts"]), 0))

    def apply_ticket(self, body: Mapping[str, Any]) -> None:
        """Take in the `ticket` entry of the next ticket."""
        ticket, decision = body["ticket"], body["decision"]
        assert ticket == self.done + 1, f"ticket {ticket} after {self.done}"
        verdict = _verdict(decision["verdict"])
        variant = variant_of(body)
        if variant is not None:
            self.variants[variant.id] = variant
            self.first_ticket.setdefault(variant.tree, ticket)
        self.attempts.append(attempt_of(body, self.variants[body["parent"]].score))
        self.counts[verdict.value] += 1
        kept = verdict is Verdict.KEPT
        evidence = decision["evidence"]
        title: Mapping[str, Any] = evidence.get("title") or {}  # of one that was promoted beside the child
        queries = [one for one in (evidence.get("holdout"), title.get("holdout")) if one is not None and one["asked"]]
        best = None
        if kept:
            assert variant is not None
            best = variant.id
            self._crown(best, body["reference"], evidence.get("holdout"))
        elif title.get("taken"):
            best = title["variant"]
            assert best in self.variants
            self._crown(best, title["mean"], title.get("holdout"))
        told = evidence.get("stages")
        if variant is not None and told is not None:
            self.intervals[variant.id] = _pair(told["interval"])
        if title.get("taken"):
            self.intervals[title["variant"]] = _pair(title["interval"])
        self.enter(change_of(body))
        if body.get("archive"):
            self._remember(ticket, body)
        before = self.marks[-1]
        idle = verdict is Verdict.NO_PROPOSAL and body["proposal"]["status"] != "conflict"
        failed = idle and body["proposal"]["status"] == "failed"
        surprised = sum(not one["passed"] for one in queries)
        tested = "confirm" in evidence or ("items" in evidence and "alpha" in evidence["items"])
        self.marks.append(
            Mark(
                incumbent=best or before.incumbent,
                rollouts=before.rollouts + len(body["rollouts"]),
                kept_at=ticket if best else before.kept_at,
                queries=before.queries + len(queries),
                surprises=before.surprises + surprised,
                idle=before.idle + (not failed) if idle else 0,
                failed=before.failed + failed if idle else 0,
                refused=0 if best else before.refused + surprised,
                comparisons=before.comparisons + tested,
            )
        )

    def _crown(self, name: str, reference: float, asked: Mapping[str, Any] | None) -> None:
        self.reference[name] = reference
        if asked is not None and asked.get("score") is not None:
            self.holdout[name] = asked["score"]

    def _remember(self, ticket: int, body: Mapping[str, Any]) -> None:
        mark = body["archive"].get("fingerprint")
        if mark:
            self.fingerprints.setdefault(mark, ticket)
        for one in body["rollouts"]:
            if one["key"].count("/") > 4:  # a key that names its task
                self._cite(one["key"], ticket)

    def _cite(self, key: str, ticket: int) -> None:
        if key not in self.cited:
            self.cited[key] = ticket
            self._by_tree.setdefault(key.split("/", 5)[4], []).append(key)

    def keys_of(self, tree_id: str, seen: int) -> list[str]:
        """The task-by-task rollouts of a tree that tickets up to `seen` cite, in that order."""
        return [key for key in self._by_tree.get(tree_id, ()) if self.cited[key] <= seen]

    def enter(self, change: Change | None) -> None:
        """Take in what a ticket did to the archive of parents; `members` are those that may be drawn now."""
        if change is None:
            return
        self.changes.append(change)
        for member in (*change.again, *([change.member] if change.member else [])):
            self.members[member.id] = member
        for name in change.gone:
            self.members.pop(name, None)


def _pair(interval: Sequence[float]) -> tuple[float, float]:
    low, high = interval
    return low, high


_VERDICTS = {one.value: one for one in Verdict}


def _verdict(text: str) -> Verdict:
    """What `Verdict(text)` is, in a tenth of the time."""
    return _VERDICTS.get(text) or Verdict(text)


def variant_of(body: Mapping[str, Any]) -> Variant | None:
    """The variant a ticket archived, if any."""
    made = body["variant"]
    if made is None:
        return None
    return Variant(
        made["id"],
        body["ticket"],
        made["tree"],
        tuple(made["parents"]),
        _verdict(made["verdict"]),
        made["score"],
        body["proposal"]["note"],
    )


def attempt_of(body: Mapping[str, Any], parent_score: float | None) -> Attempt:
    """The line later proposers see: nothing of holdout or vault is in it."""
    decision, proposal = body["decision"], body["proposal"]
    return Attempt(
        ticket=body["ticket"],
        parent=body["parent"],
        variant=None if body["variant"] is None else body["variant"]["id"],
        verdict=_verdict(decision["verdict"]),
        score=body["score"],
        parent_score=parent_score,
        note=proposal["note"],
        memo=proposal["memo"],
        reason=decision["reason"],
    )
