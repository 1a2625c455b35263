"""The report: one HTML file that needs nothing else, neither network nor neighbours."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio.to_thread
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType] - no types

from harness.errors import StorageError
from harness.records import Json, Verdict
from harness.report.claims import (
    baseline_claim,
    budget_rows,
    claims,
    evidence_rows,
    holdout_claim,
    isolation_claim,
    mode_claim,
    models_claim,
    optimizer_claim,
    raised_claim,
    role_claims,
    vault_claim,
    working_tree_claim,
)
from harness.report.numbers import count, duration, measured, metric, part
from harness.report.plots import COLOURS, metric_figure, tree_figure, tree_width
from harness.report.view import RunView, TicketView, load

TEMPLATE = Path(__file__).with_name("page.html.j2")
DIFF_CHARACTERS = 3_000_000
_AGAIN = "free space, fix permissions, or name another place with --out; the run itself is safe"


async def write_report(folder: Path, out: Path | None) -> Path:
    """Render the run in `folder` and put the page in place whole. Returns where it is.

    Raises what `load` raises, and StorageError when `out` cannot be written.
    """
    view = await load(folder)
    place = out or folder / "report.html"
    await anyio.to_thread.run_sync(lambda: _replace(place, render(view)))
    return place


def render(view: RunView) -> str:
    """The page. Everything but our own scripts is escaped by the template."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(metric=metric, evidence=evidence_rows)  # pyright: ignore[reportUnknownMemberType]
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        view=view,
        summary=view.summary,
        claims=claims(view.summary),
        holdout=holdout_claim(view.summary),
        vault=vault_claim(view.summary),
        baseline=baseline_claim(view.summary),
        facts=_facts(view),
        budget=_budget(view.summary),
        raised=raised_claim(view.summary),
        colours={str(verdict): colour for verdict, colour in COLOURS.items()},
        diff_lines=diff_lines,
        measured=measured,
        tickets=list(reversed(view.tickets)),
        counts=sorted(Counter(str(ticket.verdict) for ticket in view.tickets).items()),
        patch=view.patch,
        warning=_warning(view.summary),
        with_diff=with_diff(view.tickets),
        tree_width=tree_width(view),
        metric_json=Markup(metric_figure(view)),  # noqa: S704 - JSON with <, > and & written as escapes
        tree_json=Markup(tree_figure(view)),  # noqa: S704 - the same
        plotly=Markup(get_plotlyjs()),  # noqa: S704 - the library's own file
    )


def with_diff(tickets: Sequence[TicketView], limit: int = DIFF_CHARACTERS) -> set[int]:
    """The tickets whose diff stands on the page: the kept ones first, then the newest, up to `limit` characters."""
    chosen: set[int] = set()
    used = 0
    for ticket in sorted(tickets, key=lambda one: (one.verdict is not Verdict.KEPT, -one.ticket)):
        used += len(ticket.patch)
        if used > limit:
            break
        chosen.add(ticket.ticket)
    return chosen


def diff_lines(patch: str) -> list[tuple[str, str]]:
    """(class, line) of every line of a unified diff, for its colours; object ids are left out."""
    kinds = {"+++ ": "head", "--- ": "head", "@@": "hunk", "diff ": "head", "+": "add", "-": "del"}
    return [
        (next((kind for start, kind in kinds.items() if text.startswith(start)), ""), text)
        for text in patch.rstrip("\n").split("\n")
        if not text.startswith("index ")
    ]


def _facts(view: RunView) -> list[tuple[str, str]]:
    summary = view.summary
    return [
        ("state", str(summary["state"]) + (f": {summary['reason']}" if summary.get("reason") else "")),
        ("subject", str(summary["subject"])),
        ("metric", f"{view.metric}, {'lower' if view.direction == 'min' else 'higher'} is better"),
        ("policy and agent", f"{part(view.run, 'policy').get('name')} and {summary.get('agent')}"),
        ("eval", mode_claim(summary)),
        ("seed and workers", f"{summary.get('seed')} and {summary.get('workers')}"),
        ("box", isolation_claim(summary)),
        ("ledger head", str(summary.get("ledger_head"))),
        ("ledger seal", str(summary.get("seal"))),
        ("folder", str(summary.get("folder"))),
        *([("optimizer", came)] if (came := optimizer_claim(summary)) else []),
        *role_claims(part(summary, "roles")),
        *([("models", spent)] if (spent := models_claim(summary)) else []),
        *([("working tree", ahead)] if (ahead := working_tree_claim(part(summary, "uncommitted"))) else []),
    ]


def _warning(summary: Mapping[str, Json]) -> str:
    if "no isolation" in str(summary.get("isolation")):
        return "This run had no isolation: candidate code ran as the user who started it."
    if summary.get("mode") in ("inline", "pytest"):
        return f"The eval of this run is {mode_claim(summary)}. Read the diff before you believe the number."
    return ""


def _budget(summary: Mapping[str, Json]) -> list[tuple[str, float, str]]:
    """(name, percent used, words) of every budget line."""
    rows: list[tuple[str, float, str]] = []
    for name, used, limit in budget_rows(summary):
        say = duration if name.endswith("_s") else count
        share = min(100.0, 100 * used / limit) if limit else 0.0
        rows.append((name.removesuffix("_s"), share, say(used) + (f" of {say(limit)}" if limit is not None else "")))
    return rows


def _replace(place: Path, text: str) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(prefix=".report-", suffix=".html", dir=place.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(draft).chmod(0o644)
            Path(draft).replace(place)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StorageError(place, reason=error.strerror or str(error), mend=_AGAIN) from error
