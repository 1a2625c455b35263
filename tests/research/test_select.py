import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import harness
from harness.errors import InputError
from harness.research.population import Change, Member, Population
from harness.research.select import BestOnly, Dgm, Greedy, Hgm, HyperAgents, Pareto, Uniform, goodness, pick
from harness.streams import stream


@dataclass
class Pool:
    scores: np.ndarray
    children: np.ndarray = field(default_factory=lambda: np.zeros(0))
    wins: np.ndarray = field(default_factory=lambda: np.zeros(0))
    losses: np.ndarray = field(default_factory=lambda: np.zeros(0))
    clade_wins: np.ndarray = field(default_factory=lambda: np.zeros(0))
    clade_losses: np.ndarray = field(default_factory=lambda: np.zeros(0))
    table: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    revision: int = 0


def pool(scores, children=None, **more):
    count = len(scores)
    return Pool(
        np.array(scores, float), np.array(children or [0] * count), **{k: np.array(v, float) for k, v in more.items()}
    )


def chi_squared_holds(rule, of, expected, draws=20_000):
    """The draws' chi-squared statistic lies below the 99.9 % point (Wilson-Hilferty)."""
    rng = stream(7, "chi")
    counts = np.bincount([rule.draw(of, rng) for _ in range(draws)], minlength=len(expected))
    expected = np.array(expected)
    assert counts[expected == 0].sum() == 0
    used = expected > 0
    statistic = ((counts[used] - draws * expected[used]) ** 2 / (draws * expected[used])).sum()
    df = used.sum() - 1
    assert statistic < df * (1 - 2 / (9 * df) + 3.09 * math.sqrt(2 / (9 * df))) ** 3


def test_worked_weights():
    weights = harness.dgm_weights([0.5, 0.5, 0.7, 0.3], [0, 2, 0, 0])
    assert weights == pytest.approx([0.5, 1 / 6, 0.880797, 0.119203], abs=1e-6)


def test_worked_probabilities():
    assert harness.dgm_probabilities([0.9, 0.6, 0.2], [3, 0, 0]) == pytest.approx([0.240, 0.714, 0.046], abs=5e-4)


def test_centres():
    assert harness.dgm_weights([0.1, 0.4, 0.9], [0, 0, 0], alpha0="median")[1] == 0.5
    assert harness.dgm_weights([0.2, 0.5, 0.5, 0.5], [0] * 4, alpha0="top3")[3] == 0.5
    assert harness.dgm_weights([0.25], [0], alpha0="top3") == [0.5]
    assert harness.dgm_weights([None], [0], alpha0="median") == [0.0]


@pytest.mark.parametrize("alpha0", [0.5, "median", "top3"])
def test_degenerate_cases(alpha0):
    def chances(scores, children, **more):
        return harness.dgm_probabilities(scores, children, alpha0=alpha0, **more)

    assert harness.dgm_probabilities([], []) == []
    assert chances([0.3], [9]) == [1.0]
    assert chances([0.4] * 4, [1] * 4) == pytest.approx([0.25] * 4)
    assert chances([None, None], [0, 3]) == [0.5, 0.5]
    assert chances([None, 0.1], [0, 3]) == [0.0, 1.0]
    assert chances([-5.0, -900.0], [0, 0])[0] == pytest.approx(1.0)
    assert sum(chances([-1e6, -1e6 - 1], [0, 0])) == pytest.approx(1.0)


def test_solved_parents_are_left_out_only_while_others_are_left():
    assert harness.dgm_probabilities([1.0, 0.5], [0, 0], exclude_solved=True) == [0.0, 1.0]
    assert harness.dgm_probabilities([1.0, 0.5], [0, 0])[0] > 0.6
    assert harness.dgm_probabilities([1.0, 1.0], [0, 1], exclude_solved=True) == pytest.approx([2 / 3, 1 / 3])
    assert harness.dgm_probabilities([1.0, None], [0, 0], exclude_solved=True) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("scores", "children"), [([True], [0]), ([math.nan], [0]), ([math.inf], [0]), ([0.5], []), ([0.5], [-1])]
)
def test_what_is_no_score_is_refused(scores, children):
    with pytest.raises(InputError):
        harness.dgm_weights(scores, children)
    with pytest.raises(InputError):
        harness.dgm_probabilities(scores, children)


@given(st.lists(st.tuples(st.floats(-50, 50), st.integers(0, 1000)), min_size=1, max_size=30), st.floats(0.0, 100.0))
def test_probabilities_are_the_shares_of_the_weights(rows, lam):
    scores, children = [score for score, _ in rows], [count for _, count in rows]
    chances = harness.dgm_probabilities(scores, children, lam)
    assert math.fsum(chances) == pytest.approx(1.0)
    weights = harness.dgm_weights(scores, children, lam)
    if math.fsum(weights) > 1e-200:
        assert chances == pytest.approx([weight / math.fsum(weights) for weight in weights], abs=1e-9)


def test_draws_follow_the_exact_weights():
    scores, children = [0.9, 0.6, 0.2, 0.5], [3, 0, 0, 1]
    of = pool(scores, children)
    chi_squared_holds(Dgm(), of, harness.dgm_probabilities(scores, children))
    chi_squared_holds(Dgm(5.0, "median"), of, harness.dgm_probabilities(scores, children, 5.0, "median"))
    chi_squared_holds(Uniform(), of, [0.25] * 4)
    centre = (0.9 + 0.6 + 0.5) / 3
    weights = [
        1 / (1 + math.exp(-10 * (s - centre))) * math.exp(-((n / 8) ** 3))
        for s, n in zip(scores, children, strict=True)
    ]
    chi_squared_holds(HyperAgents(), of, [weight / sum(weights) for weight in weights])
    table = [[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 0, 1], [0, 0, 1, 0]]
    counts = harness.pareto_frequencies(table)
    chi_squared_holds(Pareto(), pool(scores, table=table), [count / sum(counts) for count in counts])


def test_thompson_on_two_clades():
    """P(Beta(9, 2) > Beta(2, 9)) by quadrature against the share of draws."""
    of = pool([0, 0], clade_wins=[8, 1], clade_losses=[1, 8], wins=[1, 8], losses=[8, 1])
    grid = np.linspace(0, 1, 20_001)
    first, second = grid**8 * (1 - grid), grid * (1 - grid) ** 8
    below = np.cumsum(second) / second.sum()
    chance = (first / first.sum() * below).sum()
    rng = stream(3, "clades")
    assert np.mean([Hgm().draw(of, rng) == 0 for _ in range(20_000)]) == pytest.approx(chance, abs=0.005)
    assert np.mean([Hgm().measured(of, rng) for _ in range(2000)]) > 0.95
    assert [Hgm.expands(evals, 5, 1) for evals in (14, 15)] == [False, True]


def test_the_best_early_and_late():
    of = pool([0.2, 0.7, math.nan, 0.7, 0.1])
    rng = stream(0, "x")
    assert Greedy().draw(of, rng) == 3
    assert BestOnly().draw(of, rng) == 1


@pytest.mark.parametrize("rule", [Dgm(), HyperAgents(), Uniform(), Greedy(), BestOnly(), Pareto(), Hgm()])
def test_an_empty_archive_is_an_error_and_one_variant_the_answer(rule):
    with pytest.raises(InputError, match="no variant"):
        rule.draw(pool([], clade_wins=[], clade_losses=[]), stream(0, "x"))
    for score in (0.5, 1.0, -3.0, math.nan):
        one = pool([score], clade_wins=[0], clade_losses=[0], table=[[score]])
        assert rule.draw(one, stream(0, "x")) == 0


def test_pick_never_takes_what_has_no_weight():
    rng = stream(1, "pick")
    assert {pick(np.array([0.0, 1e-300, 0.0]), rng) for _ in range(200)} == {1}
    assert {pick(np.zeros(3), rng) for _ in range(200)} == {0, 1, 2}
    with pytest.raises(InputError):
        pick(np.array([1.0, math.nan]), rng)


@settings(max_examples=200)
@given(
    st.integers(1, 6).flatmap(
        lambda wide: st.lists(
            st.lists(st.sampled_from([0.0, 0.5, 1.0, None]), min_size=wide, max_size=wide), min_size=1, max_size=12
        )
    )
)
def test_the_quick_front_is_the_plain_one_after_every_arrival(table):
    rule = Pareto()
    for size in range(1, len(table) + 1):
        part = table[:size]
        rows = np.array([[math.nan if one is None else one for one in row] for row in part], float)
        survivors, counts = rule.survivors(rows)
        assert survivors == harness.pareto_front(part)
        assert counts == [count for count in harness.pareto_frequencies(part) if count]


def test_front_by_hand():
    assert harness.pareto_front([[1, 0], [1, 1]]) == [1]
    assert harness.pareto_front([[1, 0], [0, 1], [0.5, 0.5]]) == [0, 1]
    assert harness.pareto_front([[0, 0], [0, 0], [0, 0]]) == [2]
    assert harness.pareto_frequencies([[1, 0, 1], [0, 1, 1], [0, 0, 0]]) == [2, 2, 0]


def test_goodness_turns_a_minimised_metric_round():
    assert goodness(0.25, "min", (0.0, 1.0)) == 0.75
    assert goodness(30.0, "max", (10.0, 50.0)) == 0.5
    assert goodness(-2.0, "min", None) == 2.0


def member(ticket, parents, score=0.5, **more):
    return Change(ticket, Member(f"v{ticket}", ticket, tuple(f"v{p}" for p in parents), score, **more))


def test_the_population_is_that_of_the_ticket_asked_for():
    of = Population()
    of.announce(member(0, []))
    of.announce(member(1, [0], 0.6))
    of.announce(member(2, [0], 0.7))
    of.announce(member(4, [2], 0.8))
    assert of.until(1).children.tolist() == [1, 0]
    assert of.until(3).children.tolist() == [2, 0, 0]
    assert of.until(9).children.tolist() == [2, 0, 1, 0]
    assert of.ids == ["v0", "v1", "v2", "v4"]


def test_clades_count_each_descendant_once_through_a_merge():
    of = Population()
    of.announce(member(0, [], wins=1, losses=1))
    of.announce(member(1, [0], wins=2, losses=0))
    of.announce(member(2, [0], wins=0, losses=3))
    of.announce(member(3, [1, 2], wins=4, losses=1))
    of.until(3)
    assert of.clade_wins.tolist() == [7, 6, 4, 4]
    assert of.clade_losses.tolist() == [5, 1, 4, 1]
    assert of.children.tolist() == [2, 1, 1, 0]
    of.announce(Change(4, again=(Member("v3", 3, (), 0.9, wins=6, losses=1),)))
    assert of.until(4).clade_wins.tolist() == [9, 8, 6, 6]
    assert of.scores[3] == 0.9


def test_who_left_is_not_selected_again():
    of = Population()
    of.announce(member(0, [], 0.9, items=(1.0, 1.0)))
    of.announce(member(1, [0], 0.1, items=(0.0, 0.0)))
    rule, rng = Pareto(), stream(0, "gone")
    assert rule.draw(of.until(1), rng) == 0
    of.announce(Change(2, gone=("v0",)))
    of.until(2)
    assert {rule.draw(of, rng) for _ in range(50)} == {1}
    assert {Dgm().draw(of, rng) for _ in range(50)} == {1}


@given(st.lists(st.integers(0, 1000), max_size=80))
def test_child_counts_are_what_counting_gives(parents):
    of = Population()
    of.announce(member(0, []))
    edges = [parent % (place + 1) for place, parent in enumerate(parents)]
    for place, parent in enumerate(edges):
        of.announce(member(place + 1, [parent]))
    of.until(len(edges))
    assert of.children.tolist() == [edges.count(place) for place in range(len(edges) + 1)]


HUGE = 1.7e308


@pytest.mark.parametrize("alpha0", [0.5, "median", "top3", HUGE, -HUGE])
@pytest.mark.parametrize("lam", [0.0, 1e-300, 10.0, HUGE])
@pytest.mark.parametrize("scores", [[HUGE], [-HUGE] * 3, [HUGE, HUGE, HUGE, -HUGE], [None, HUGE, 0.5], [1e-320, 0.0]])
def test_huge_and_tiny_numbers_have_weights_without_a_warning(scores, lam, alpha0):
    children = [3 * place for place in range(len(scores))]
    weights = harness.dgm_weights(scores, children, lam, alpha0)
    assert all(0.0 <= weight <= 1.0 for weight in weights)
    chances = harness.dgm_probabilities(scores, children, lam, alpha0)
    assert math.fsum(chances) == pytest.approx(1.0)
    assert all(chance == 0.0 for chance, score in zip(chances, scores, strict=True) if score is None)


def test_equals_far_out_are_told_apart_by_their_children():
    assert harness.dgm_probabilities([-1e308, -1e308], [0, 3], lam=1e10) == pytest.approx([0.8, 0.2])
    assert harness.dgm_probabilities([HUGE] * 4, [0, 1, 1, 3], alpha0="top3") == pytest.approx(
        [4 / 9, 2 / 9, 2 / 9, 1 / 9]
    )
    assert harness.dgm_weights([HUGE, HUGE], [0, 1], alpha0="median") == [0.5, 0.25]
    assert harness.dgm_weights([0.5], [10**30]) == [pytest.approx(0.5e-30)]


@pytest.mark.parametrize(
    ("scores", "children", "more"),
    [
        (["a"], [0], {}),
        ([10**400], [0], {}),
        ([0.5], [1.5], {}),
        ([0.5], [None], {}),
        ([0.5], [True], {}),
        ([0.5], [math.inf], {}),
        ([0.5], [0], {"lam": math.nan}),
        ([0.5], [0], {"lam": math.inf}),
        ([0.5], [0], {"lam": -1.0}),
        ([0.5], [0], {"alpha0": math.nan}),
        ([0.5], [0], {"alpha0": "mean"}),
        ([0.5], [0], {"alpha0": None}),
    ],
)
def test_what_has_no_weight_is_refused(scores, children, more):
    for ask in (harness.dgm_weights, harness.dgm_probabilities):
        with pytest.raises(InputError):
            ask(scores, children, **more)


@pytest.mark.parametrize("table", [[[math.nan]], [[math.inf]], [["a"]], [[True]], [[10**400]], [[1], [1, 2]], [5], 5])
def test_what_is_no_table_is_refused(table):
    for ask in (harness.pareto_front, harness.pareto_frequencies):
        with pytest.raises(InputError):
            ask(table)


def test_degenerate_tables():
    assert harness.pareto_front([]) == harness.pareto_frequencies([]) == []
    assert harness.pareto_front([[], []]) == []
    assert harness.pareto_frequencies([[], []]) == [0, 0]
    assert harness.pareto_front([[None], [None]]) == []
    assert harness.pareto_frequencies([[HUGE, -HUGE], [HUGE, 0]]) == [0, 2]
    assert harness.pareto_front(np.array([[1.0, 0.0], [0.0, 1.0]])) == [0, 1]
    assert harness.dgm_weights(np.array([0.5]), np.array([0])) == [0.5]


def test_what_is_no_list_is_said():
    with pytest.raises(InputError, match="no scores and child counts"):
        harness.dgm_weights(None, None)
    with pytest.raises(InputError, match="no scores and child counts"):
        harness.dgm_probabilities([0.5], None)
