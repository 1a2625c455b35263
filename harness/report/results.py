"""A run as autoresearch's results.tsv: one line a ticket, and an empty metric where there is none."""

from __future__ import annotations

from harness.records import Verdict
from harness.report.view import RunView

_STATUS = {
    Verdict.KEPT: "keep",
    Verdict.CRASHED: "crash",
    Verdict.TIMED_OUT: "crash",
    Verdict.INFRA: "crash",
}


def results_tsv(view: RunView) -> str:
    """Columns: commit (seven digits of the tree), the metric under its own name, memory_gb, status, description.

    A crash has no metric and so an empty field. Memory is not measured and stays empty as well.
    """
    lines = ["\t".join(("commit", view.metric, "memory_gb", "status", "description"))]
    lines.append(_line(view.root.tree, view.root.score, "keep", "baseline"))
    for ticket in view.tickets:
        status = _STATUS.get(ticket.verdict, "discard")
        score = None if status == "crash" else ticket.score
        lines.append(_line(ticket.tree or "", score, status, ticket.note or ticket.reason))
    return "\n".join(lines) + "\n"


def _line(tree: str, score: float | None, status: str, description: str) -> str:
    return "\t".join(
        (tree[:7], "" if score is None else f"{score + 0.0:.6f}", "", status, description.replace("\t", " "))
    )
