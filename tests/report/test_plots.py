import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from harness.records import Variant, Verdict
from harness.report.plots import COLOURS, ancestry, bounds, layout, metric_figure, tree_figure, tree_width


def variants(parents):
    """Variant k + 1 hangs below the earlier variant that `parents[k]` picks."""
    found = [Variant("v0", 0, "t", (), Verdict.KEPT, 1.0)]
    for number, pick in enumerate(parents, start=1):
        found.append(Variant(f"v{number}", number, "t", (found[pick % number].id,), Verdict.DISCARDED, 1.0))
    return found


@given(st.lists(st.integers(0, 100), max_size=40))
def test_no_two_variants_of_a_depth_share_a_place_and_children_are_one_below(parents):
    tree = variants(parents)
    places = layout(tree)
    assert len(set(places.values())) == len(tree)
    for variant in tree[1:]:
        assert places[variant.id][1] == places[variant.parents[0]][1] - 1


def test_a_long_chain_does_not_recurse():
    tree = variants(range(3000))
    assert layout(tree)["v3000"] == (0.0, -3000.0)
    assert len(ancestry("v3000", {variant.id: variant for variant in tree})) == 3001


def test_every_verdict_has_a_colour_of_its_own():
    assert set(COLOURS) == set(Verdict)
    assert len(set(COLOURS.values())) == len(Verdict)


def test_the_metric_figure_has_every_ticket_and_the_incumbent(view):
    traces = json.loads(metric_figure(view))["data"]
    assert traces[0]["name"] == "incumbent"
    assert traces[0]["y"][0] == view.root.score
    assert traces[0]["y"][-1] == view.tickets[-1].incumbent_score
    assert sum(len(trace["x"]) for trace in traces[1:]) == len(view.tickets)


def test_tickets_without_a_metric_are_drawn_below_every_metric(view):
    lowest = min(ticket.score for ticket in view.tickets if ticket.score is not None)
    traces = {trace["name"]: trace for trace in json.loads(metric_figure(view))["data"]}
    assert all(value < lowest for value in traces["crashed"]["y"])
    assert all("no metric" in text for text in traces["crashed"]["text"])


def test_one_absurd_score_does_not_flatten_the_rest(view):
    first, *rest = view.tickets
    high = bounds(view)[1]
    wild = replace(view, tickets=(replace(first, verdict=Verdict.DISCARDED, score=1e12), *rest))
    assert bounds(wild)[1] <= 2 * high
    traces = {trace["name"]: trace for trace in json.loads(metric_figure(wild))["data"]}
    assert max(traces["discarded"]["y"]) <= bounds(wild)[1]
    assert "error 1e+12" in traces["discarded"]["text"][0]


def test_nothing_in_a_figure_can_end_its_script_element(view):
    for figure in (metric_figure(view), tree_figure(view)):
        assert "<" not in figure
        assert ">" not in figure
        assert "%{y}" not in figure.replace("%{y:.6g}", "")


def test_a_run_with_only_its_root_can_be_drawn(view_of):
    view = view_of(0)
    assert json.loads(metric_figure(view))["data"][0]["x"] == [0]
    assert len(json.loads(tree_figure(view))["data"]) == 3
    assert tree_width(view) == 40
