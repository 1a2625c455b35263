import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.research.evidence.statistics import (
    holdout_epsilon,
    lower_bound,
    mcnemar,
    paired_bootstrap,
    student_cdf,
    student_quantile,
    wilson,
)
from harness.streams import stream


@pytest.mark.parametrize(
    ("p", "df", "t"),
    [
        (0.95, 1, 6.313752),
        (0.975, 3, 3.182446),
        (0.99, 4, 3.746947),
        (0.995, 10, 3.169273),
        (0.975, 30, 2.042272),
        (0.9995, 3, 12.923979),
    ],
)
def test_student_quantiles_are_the_tables(p, df, t):
    assert student_quantile(p, df) == pytest.approx(t, rel=1e-6)


@given(st.floats(-50, 50), st.integers(1, 60))
def test_student_cdf_is_a_symmetric_cdf(t, df):
    assert 0 <= student_cdf(t, df) <= 1
    assert student_cdf(t, df) + student_cdf(-t, df) == pytest.approx(1)


@given(st.floats(0.5, 0.99999), st.integers(1, 40))
def test_the_quantile_inverts_the_cdf(p, df):
    assert student_cdf(student_quantile(p, df), df) == pytest.approx(p, abs=1e-9)


def test_lower_bound_of_equal_differences_is_their_value():
    assert lower_bound([0.5, 0.5, 0.5], 0.001) == 0.5


def test_lower_bound_by_hand():
    assert lower_bound([1.0, 2.0, 3.0, 4.0], 0.025) == pytest.approx(2.5 - 3.182446 * 1.290994 / 2, rel=1e-5)


def test_mcnemar_by_hand():
    assert mcnemar(5, 0) == 1 / 32
    assert mcnemar(0, 0) == 1
    assert mcnemar(3, 1) == 5 / 16


def test_wilson_by_hand():
    low, high = wilson(0.5, 10)
    assert (low, high) == (pytest.approx(0.23659, abs=1e-5), pytest.approx(0.76341, abs=1e-5))
    assert wilson(0.0, 10)[0] == 0.0


def test_bootstrap_never_says_p_is_zero_and_repeats_itself():
    p, (low, high) = paired_bootstrap([1.0] * 20, stream(0, "b"))
    assert (p, low, high) == (1 / 10_001, 1.0, 1.0)
    gains = list(np.linspace(-1, 1.2, 50))
    assert paired_bootstrap(gains, stream(0, "b")) == paired_bootstrap(gains, stream(0, "b"))


def test_epsilon_is_the_published_bound():
    assert holdout_epsilon(300, 5, 2_000) == pytest.approx(0.091, abs=5e-4)
    assert holdout_epsilon(300, 5, 10_000) == pytest.approx(0.041, abs=5e-4)
    assert math.isfinite(holdout_epsilon(0, 5, 10))
