import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import BudgetError
from harness.policy.budget import Budget


def test_refuses_what_does_not_fit():
    budget = Budget({"rollouts": 3})
    budget.reserve("rollouts", 2)
    with pytest.raises(BudgetError) as refused:
        budget.reserve("rollouts", 2)
    assert (refused.value.kind, refused.value.limit, refused.value.used, refused.value.asked) == ("rollouts", 3, 2, 2)


def test_settling_frees_the_rest():
    budget = Budget({"rollouts": 3})
    budget.reserve("rollouts", 3)
    budget.settle("rollouts", 3, 1)
    assert budget.fits("rollouts", 2)
    assert not budget.fits("rollouts", 3)
    assert budget.usage()["rollouts"].used == 1


def test_spending_more_than_reserved_is_a_fault():
    budget = Budget({"rollouts": 3})
    budget.reserve("rollouts", 1)
    with pytest.raises(ValueError, match="under a reservation"):
        budget.settle("rollouts", 1, 2)


@given(st.integers(0, 20), st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.integers(0, 5)), max_size=40))
def test_used_and_held_never_pass_the_limit(limit, steps):
    budget, open_reservations = Budget({"x": limit}), []
    for amount, settle, spent in steps:
        if settle and open_reservations:
            reserved = open_reservations.pop()
            budget.settle("x", reserved, min(spent, reserved))
        elif budget.fits("x", amount):
            budget.reserve("x", amount)
            open_reservations.append(amount)
        assert budget.used.get("x", 0) + budget.held.get("x", 0) <= limit
