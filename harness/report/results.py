"""A run as autoresearch's results.tsv: one line a ticket, and an empty metric where there is none."""

from __future__ import annotations

from collections.abc import Iterable

from harness.records import Split, Verdict
from harness.report.view import RolloutView, RunView

_STATUS = {
    Verdict.KEPT: "keep",
    Verdict.CRASHED: "crash",
    Verdict.TIMED_OUT: "crash",
    Verdict.INFRA: "crash",
}


def results_tsv(view: RunView) -> str:
    """Columns: commit (seven digits of the tree), the metric under its own name, memory_gb, status, description.

    A crash has no metric and so an empty field. Memory is the most that one process of the candidate held in a
    visible run of the ticket, in GiB; it is empty where nothing ran.
    """
    lines = ["\t".join(("commit", view.metric, "memory_gb", "status", "description"))]
    root = [rollout for rollout in view.rollouts if rollout.tree == view.root.tree]
    lines.append(_line(view.root.tree, view.root.score, _memory(root), "keep", "baseline"))
    for ticket in view.tickets:
        status = _STATUS.get(ticket.verdict, "discard")
        score = None if status == "crash" else ticket.score
        memory = _memory(view.rollouts_of(ticket))
        lines.append(_line(ticket.tree or "", score, memory, status, ticket.note or ticket.reason))
    return "\n".join(lines) + "\n"


def _memory(rollouts: Iterable[RolloutView]) -> float | None:
    seen = [one.memory_mb for one in rollouts if one.split is Split.VISIBLE and one.memory_mb is not None]
    return max(seen) / 1024 if seen else None


def _line(tree: str, score: float | None, memory_gb: float | None, status: str, description: str) -> str:
    numbers = (_number(score, 6), _number(memory_gb, 3))
    return "\t".join((tree[:7], *numbers, status, description.replace("\t", " ")))


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value + 0.0:.{digits}f}"
