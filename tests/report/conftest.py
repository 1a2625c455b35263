"""A read model made by hand: a run of forty tickets with every verdict and hostile text in its notes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.records import Split, Variant, Verdict
from harness.report.view import RolloutView, RunView, TicketView
from harness.untrusted import line

HOSTILE = '<script>alert("strop")</script> [bold]x[/bold] \x1b[31mred {{ 7*7 }} %{y}'
PATCH = """--- a/train.py
+++ b/train.py
@@ -3,7 +3,7 @@
 import numpy as np
-LEARNING_RATE = 0.1
+LEARNING_RATE = 0.42
 STEPS = 100  # </pre><script>alert(1)</script>
"""
CYCLE = (
    Verdict.DISCARDED,
    Verdict.KEPT,
    Verdict.DISCARDED,
    Verdict.BLOCKED,
    Verdict.CRASHED,
    Verdict.DISCARDED,
    Verdict.KEPT,
    Verdict.TIMED_OUT,
    Verdict.DUPLICATE,
    Verdict.NO_PROPOSAL,
    Verdict.INFRA,
)
WITHOUT_SCORE = {
    Verdict.BLOCKED,
    Verdict.CRASHED,
    Verdict.TIMED_OUT,
    Verdict.DUPLICATE,
    Verdict.NO_PROPOSAL,
    Verdict.INFRA,
}


def make_view(tickets: int = 40, *, isolation: str = "embedded") -> RunView:
    """A view of a run in which every eleventh ticket repeats the cycle of verdicts."""
    root = Variant("v0", 0, "a" * 40, (), Verdict.KEPT, 0.25, "the subject as it was given")
    variants, made, best, score = [root], [], root, 0.25
    for number in range(1, tickets + 1):
        verdict = CYCLE[number % len(CYCLE)]
        parent, parent_score = best, score
        mine = None if verdict in WITHOUT_SCORE else score * (0.9 if verdict is Verdict.KEPT else 1.04)
        archived = verdict not in {Verdict.BLOCKED, Verdict.DUPLICATE, Verdict.NO_PROPOSAL}
        note = line(HOSTILE if number % 9 == 0 else f"LEARNING_RATE 0.1 -> {0.1 + number / 100:.2f}")
        if archived:
            variants.append(Variant(f"v{number}", number, f"{number:040x}", (parent.id,), verdict, mine, note))
        if verdict is Verdict.KEPT:
            best, score = variants[-1], mine
        made.append(
            TicketView(
                ticket=number,
                verdict=verdict,
                parent=parent.id,
                variant=f"v{number}" if archived else None,
                tree=None if verdict in {Verdict.BLOCKED, Verdict.NO_PROPOSAL} else f"{number:040x}",
                score=mine,
                parent_score=parent_score,
                note=note,
                reason="better, and the gain holds" if verdict is Verdict.KEPT else "no gain that holds",
                violations=("score.py: not editable",) if verdict is Verdict.BLOCKED else (),
                evidence={"screen": {"gain": 0.01, "passed": verdict is Verdict.KEPT}},
                incumbent=best.id,
                incumbent_score=score,
                at="2026-01-01T00:00:00.000+00:00",
                patch=PATCH if archived else "",
            )
        )
    summary = {
        "run_id": "digits-20260101-000000",
        "state": "finished",
        "reason": "steps: all taken",
        "subject": "digits",
        "metric": "error",
        "direction": "min",
        "seed": 0,
        "workers": 2,
        "steps": {"done": tickets, "limit": tickets},
        "counts": {},
        "root": {"id": "v0", "metric": 0.25},
        "incumbent": {"id": best.id, "metric": score},
        "holdout": {"queries": 8, "surprises": 1, "eps": 0.0912, "verdict": "holds"},
        "vault": {
            "root": {"id": "v0", "metric": 0.26, "ci": [0.22, 0.31], "interval": "95 % Wilson over 360 examples"},
            "best": {"id": best.id, "metric": 0.13, "ci": [0.1, 0.17], "interval": "95 % Wilson over 360 examples"},
            "gain": {"mean": 0.13, "ci": [0.09, 0.17], "p_bootstrap": 0.0001},
        },
        "budget": {
            "rollouts": {"used": 88, "limit": 1000},
            "wall_s": {"used": 93.2, "limit": 28800},
            "steps": {"used": tickets, "limit": tickets},
        },
        "lost_rollouts": 1,
        "ledger_head": "0123456789abcdef" * 4,
        "seal": "fedcba9876543210" * 4,
        "isolation": isolation,
        "mode": "split",
        "agent": "search",
        "folder": "/runs/digits-20260101-000000",
        "report": None,
    }
    rollout = RolloutView(1, "screen", Split.VISIBLE, 0, f"{1:040x}", "ok", 0.2, 1.5, 512.0, "")
    hidden = RolloutView(1, "holdout", Split.HOLDOUT, 0, f"{1:040x}", "ok", 0.2, 1.5, 2048.0, "")
    return RunView(
        folder=Path("/runs/digits-20260101-000000"),
        summary=summary,
        run={"policy": {"name": "guarded"}},
        meta={},
        root=root,
        best=best,
        variants=tuple(variants),
        tickets=tuple(made),
        rollouts=(rollout, hidden),
        patch=PATCH if best is not root else "",
    )


@pytest.fixture
def view() -> RunView:
    return make_view()


@pytest.fixture
def view_of() -> Callable[..., RunView]:
    """`make_view`, for tests that want another size or box."""
    return make_view
