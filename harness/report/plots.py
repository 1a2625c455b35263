"""The two pictures of a run, as plotly figures in plain JSON: the metric over steps, and the tree of variants.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; every verdict has its own marker as well.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

from harness.records import Variant, Verdict
from harness.report.numbers import measured
from harness.report.view import RunView, TicketView
from harness.untrusted import line

COLOURS: Mapping[Verdict, str] = {
    Verdict.KEPT: "#009E73",
    Verdict.ARCHIVED: "#0072B2",
    Verdict.DISCARDED: "#8a8f98",
    Verdict.BLOCKED: "#D55E00",
    Verdict.CRASHED: "#E69F00",
    Verdict.TIMED_OUT: "#CC79A7",
    Verdict.DUPLICATE: "#56B4E9",
    Verdict.NO_PROPOSAL: "#b8bcc4",
    Verdict.INFRA: "#7b5ea7",
}
_MARKERS: Mapping[Verdict, str] = {
    Verdict.KEPT: "circle",
    Verdict.ARCHIVED: "circle-open-dot",
    Verdict.DISCARDED: "circle-open",
    Verdict.BLOCKED: "x",
    Verdict.CRASHED: "triangle-down",
    Verdict.TIMED_OUT: "square",
    Verdict.DUPLICATE: "diamond-open",
    Verdict.NO_PROPOSAL: "line-ew",
    Verdict.INFRA: "cross",
}
_BLUE = "#0072B2"
_LAYOUT: dict[str, object] = {
    "margin": {"l": 56, "r": 16, "t": 8, "b": 44},
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"family": "system-ui, sans-serif", "size": 13, "color": "#24292f"},
    "hoverlabel": {"align": "left"},
    "hovermode": "closest",
}


def metric_figure(view: RunView) -> str:
    """Every ticket's visible metric by verdict, with the incumbent as a line. Tickets without one sit on the axis."""
    traces = [_incumbent_trace(view)]
    by_verdict: dict[Verdict, list[TicketView]] = defaultdict(list)
    for ticket in view.tickets:
        by_verdict[ticket.verdict].append(ticket)
    low, high = bounds(view)
    last = max(1, len(view.tickets))
    room = 0.02 * last
    traces += [_verdict_trace(name, by_verdict[name], (low, high), view.metric) for name in COLOURS if by_verdict[name]]
    return _figure(
        traces,
        xaxis={"title": {"text": "ticket"}, "range": [-room, last + room], "gridcolor": "#eceef1", "zeroline": False},
        yaxis={
            "title": {"text": f"{view.metric} (visible)"},
            "gridcolor": "#eceef1",
            "zeroline": False,
            "range": [low, high],
        },
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        height=380,
    )


def tree_figure(view: RunView) -> str:
    """The archived variants, each below its parent, the line of the best one drawn out."""
    places = layout(view.variants)
    by_id = {variant.id: variant for variant in view.variants}
    line_of_best = set(ancestry(view.best.id, by_id))
    traces: list[dict[str, object]] = []
    for strong in (False, True):
        xs: list[float | None] = []
        ys: list[float | None] = []
        for variant in view.variants:
            for parent in variant.parents:
                if parent in places and (variant.id in line_of_best and parent in line_of_best) is strong:
                    xs += [places[parent][0], places[variant.id][0], None]
                    ys += [places[parent][1], places[variant.id][1], None]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": xs,
                "y": ys,
                "line": {"color": _BLUE if strong else "#d0d4da", "width": 2.5 if strong else 1},
                "hoverinfo": "skip",
                "showlegend": False,
            }
        )
    for verdict in COLOURS:
        shown = [variant for variant in view.variants if variant.verdict is verdict]
        if shown:
            traces.append(_nodes(shown, places, view, line_of_best))
    depth = max(-y for _, y in places.values())
    hidden = {"visible": False}
    return _figure(
        traces,
        xaxis=hidden,
        yaxis={"visible": False, "range": [-depth - 0.7, 0.7]},
        showlegend=False,
        height=int(min(900, 80 + 46 * depth)),
    )


def tree_width(view: RunView) -> int:
    """The least width of the tree in pixels at which its labels can be read; the page scrolls to it."""
    leaves = 1 + max(x for x, _ in layout(view.variants).values())
    return int(min(4000, 40 * leaves))


def layout(variants: Sequence[Variant]) -> dict[str, tuple[float, float]]:
    """(x, y) of every variant: y is minus its depth, x counts leaves, a parent stands over its children's middle."""
    known = {variant.id for variant in variants}
    children: dict[str, list[str]] = defaultdict(list)
    roots: list[str] = []
    for variant in variants:
        above = [parent for parent in variant.parents if parent in known][:1]
        children[above[0]].append(variant.id) if above else roots.append(variant.id)
    places: dict[str, tuple[float, float]] = {}
    leaf = 0
    ahead = [(root, 0, False) for root in reversed(roots)]
    while ahead:
        name, depth, seen = ahead.pop()
        below = children[name]
        if below and not seen:
            ahead.append((name, depth, True))
            ahead += [(child, depth + 1, False) for child in reversed(below)]
        elif below:
            places[name] = (sum(places[child][0] for child in below) / len(below), -float(depth))
        else:
            places[name] = (float(leaf), -float(depth))
            leaf += 1
    return places


def ancestry(name: str, by_id: Mapping[str, Variant]) -> list[str]:
    """A variant and its first parents, up to the root."""
    found: list[str] = []
    while name in by_id and name not in found:
        found.append(name)
        name = next(iter(by_id[name].parents), "")
    return found


def _incumbent_trace(view: RunView) -> dict[str, object]:
    xs = [0, *(ticket.ticket for ticket in view.tickets)]
    ys = [view.root.score, *(ticket.incumbent_score for ticket in view.tickets)]
    intervals = [None, *(ticket.incumbent_interval for ticket in view.tickets)]
    names = [view.root.id, *(ticket.incumbent for ticket in view.tickets)]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "incumbent",
        "x": xs,
        "y": ys,
        "text": [f"{name}: {measured(y, one)}" for name, y, one in zip(names, ys, intervals, strict=True)],
        "line": {"color": _BLUE, "width": 2.5, "shape": "hv"},
        "hovertemplate": "incumbent %{text}<extra></extra>",
    }


def _verdict_trace(
    verdict: Verdict, tickets: Sequence[TicketView], span: tuple[float, float], metric: str
) -> dict[str, object]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": verdict.replace("_", " "),
        "x": [ticket.ticket for ticket in tickets],
        "y": [_height(ticket.score, span) for ticket in tickets],
        "text": [_hover(ticket, metric) for ticket in tickets],
        "customdata": [f"t{ticket.ticket}" for ticket in tickets],
        "marker": {
            "color": COLOURS[verdict],
            "symbol": _MARKERS[verdict],
            "size": 10 if verdict is Verdict.KEPT else 8,
            "line": {"width": 1.5, "color": COLOURS[verdict]},
        },
        "hovertemplate": "%{text}<extra></extra>",
    }


def _hover(ticket: TicketView, metric: str) -> str:
    score = "no metric" if ticket.score is None else f"{metric} {measured(ticket.score, ticket.interval)}"
    return f"t{ticket.ticket} {ticket.verdict}: {score}<br>{_plotly_text(ticket.note or ticket.reason)}"


def _nodes(
    shown: Sequence[Variant],
    places: Mapping[str, tuple[float, float]],
    view: RunView,
    line_of_best: set[str],
) -> dict[str, object]:
    few = len(view.variants) <= 100
    known = {ticket.variant: ticket.interval for ticket in view.tickets}
    verdict = shown[0].verdict
    return {
        "type": "scatter",
        "mode": "markers+text",
        "name": verdict.replace("_", " "),
        "x": [places[variant.id][0] for variant in shown],
        "y": [places[variant.id][1] for variant in shown],
        "text": [variant.id if few or variant.id in line_of_best else "" for variant in shown],
        "textposition": "middle right",
        "hovertext": [
            f"{variant.id}: {'no metric' if variant.score is None else measured(variant.score, known.get(variant.id))}"
            f"<br>{_plotly_text(variant.note)}"
            for variant in shown
        ],
        "hoverinfo": "text",
        "marker": {
            "color": COLOURS[verdict],
            "symbol": _MARKERS[verdict],
            "size": [15 if variant.id == view.best.id else 9 for variant in shown],
            "line": {
                "width": [3 if variant.id == view.best.id else 1.5 for variant in shown],
                "color": _outline(shown, view),
            },
            "opacity": 1,
        },
    }


def _outline(shown: Sequence[Variant], view: RunView) -> list[str]:
    return [_BLUE if variant.id == view.best.id else COLOURS[variant.verdict] for variant in shown]


def _plotly_text(text: str, limit: int = 90) -> str:
    """Candidate text for a hover label: plotly reads a little HTML there, so its brackets are taken away."""
    return line(text, limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%{", "% {")


def bounds(view: RunView) -> tuple[float, float]:
    """The span of the metric's axis: all incumbents and the middle eight tenths of the rest, with room at both ends.

    One absurd score would otherwise flatten everything else; it is drawn at the edge and says its value.
    """
    scores = sorted(ticket.score for ticket in view.tickets if ticket.score is not None)
    cut = len(scores) // 10
    shown = scores[cut : len(scores) - cut]
    shown += [ticket.incumbent_score for ticket in view.tickets if ticket.incumbent_score is not None]
    shown += [view.root.score] if view.root.score is not None else []
    if not shown:
        return 0.0, 1.0
    low, high = min(shown), max(shown)
    room = 0.12 * ((high - low) or abs(low) or 1.0)
    return low - room, high + room


def _height(score: float | None, span: tuple[float, float]) -> float:
    """Where a ticket is drawn: at the bottom edge without a metric, at the nearer edge when outside the span."""
    low, high = span
    inset = 0.03 * (high - low)
    return low + inset if score is None else min(max(score, low + inset), high - inset)


def _figure(traces: Sequence[Mapping[str, object]], **layout_: object) -> str:
    """The figure as JSON that may stand inside a <script> element."""
    text = json.dumps({"data": traces, "layout": {**_LAYOUT, **layout_}}, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").replace("\u2028", "\\u2028")
