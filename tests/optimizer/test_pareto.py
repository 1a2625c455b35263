import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import InputError
from harness.optimizer.pareto import front, pareto_choice, pareto_front, pareto_weights
from harness.streams import stream

TABLES = st.integers(1, 5).flatmap(
    lambda n: st.lists(
        st.lists(st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0, -1.0])), min_size=n, max_size=n),
        min_size=1,
        max_size=6,
    )
)


def test_a_winner_alone_on_one_instance_survives_a_better_mean():
    assert pareto_front([[1, 0, 0], [0, 1, 1]]) == [0, 1]
    assert pareto_weights([[1, 0, 0], [0, 1, 1]]) == pytest.approx([1 / 3, 2 / 3])


def test_a_candidate_all_of_whose_wins_are_shared_goes():
    assert pareto_front([[1, 0], [1, 1]]) == [1]


def test_ties_all_over_leave_the_last_one():
    assert pareto_front([[0, 0], [0, 0], [0, 0]]) == [2]


def test_a_missing_score_wins_nothing_even_against_negatives():
    assert pareto_front([[None, None], [-3.0, -4.0]]) == [1]
    assert pareto_front([[None], [None]]) == []


def test_without_any_score_the_choice_is_uniform_and_seeded():
    draws = [pareto_choice([[None], [None]], stream(0, "t", n)) for n in range(40)]
    assert set(draws) == {0, 1}
    assert draws == [pareto_choice([[None], [None]], stream(0, "t", n)) for n in range(40)]


def test_no_candidate_is_an_error():
    with pytest.raises(InputError):
        pareto_choice([], stream(0, "t"))


def test_ragged_rows_are_an_error():
    with pytest.raises(InputError):
        front([[1.0], [1.0, 0.0]])


@given(TABLES)
def test_every_instance_with_a_score_keeps_a_winner(scores):
    found = front(scores)
    for instance, winners in enumerate(found.wins):
        scored = any(row[instance] is not None for row in scores)
        assert bool(winners & set(found.survivors)) == scored


@given(TABLES)
def test_weights_are_a_distribution_over_the_front(scores):
    weights = pareto_weights(scores)
    kept = pareto_front(scores)
    assert {k for k, w in enumerate(weights) if w > 0} == set(kept)
    assert sum(weights) == pytest.approx(1.0 if kept else 0.0)


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, None]), min_size=4, max_size=4), min_size=1, max_size=9))
def test_removal_one_by_one_leaves_the_same(table):
    """Algorithm 2 as it is written: from the lowest index up, while every win has another surviving winner."""
    tops = [max((row[i] for row in table if row[i] is not None), default=None) for i in range(4)]
    wins = [{k for k, row in enumerate(table) if row[i] is not None and row[i] == tops[i]} for i in range(4)]
    alive = set().union(*wins)
    for one in sorted(alive):
        if all(len(winners & alive) > 1 for winners in wins if one in winners):
            alive.discard(one)
    assert pareto_front(table) == sorted(alive)


def test_a_table_full_of_ties_takes_no_quadratic_time():
    rows = np.random.default_rng(0).integers(0, 2, (30_000, 20)).tolist()
    assert 0 < len(pareto_front(rows)) <= 20
