import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.research.evidence.posterior import Share, beta_cdf, chance_of


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0.001, 0.999))
def test_beta_cdf_is_the_binomial_tail(a, b, x):
    n = a + b - 1
    tail = math.fsum(math.comb(n, k) * x**k * (1 - x) ** (n - k) for k in range(a, n + 1))
    assert beta_cdf(x, a, b) == pytest.approx(tail, abs=1e-9)


def test_known_values():
    assert beta_cdf(0.5, 0.5, 0.5) == pytest.approx(0.5)
    assert beta_cdf(0.25, 0.5, 0.5) == pytest.approx(2 / math.pi * math.asin(0.5))
    assert Share(0, 0).mean == 0.5
    assert Share(0, 0).interval() == pytest.approx((0.025, 0.975), abs=1e-6)
    assert Share(8, 2).mean == 0.75


def test_depth_narrows_the_interval_and_moves_the_mean_to_the_share():
    shallow, deep = Share(4, 1), Share(80, 20)
    assert shallow.mean < deep.mean < 0.8
    width = [high - low for low, high in (shallow.interval(), deep.interval())]
    assert width[0] > 3 * width[1]


@given(st.integers(0, 12), st.integers(0, 9), st.integers(0, 9))
def test_chances_over_all_outcomes_sum_to_one(left, wins, losses):
    share = Share(wins, losses)
    exactly = [chance_of(k, left, share) - chance_of(k + 1, left, share) for k in range(left + 1)]
    assert math.fsum(exactly) == pytest.approx(1.0)
    assert chance_of(-3, left, share) == pytest.approx(1.0)
    assert chance_of(left + 1, left, share) == 0.0


def test_chance_of_one_more_is_the_posterior_mean():
    assert chance_of(1, 1, Share(3, 1)) == pytest.approx(Share(3, 1).mean)
