from hypothesis import given
from hypothesis import strategies as st

from harness.policy.schema import GatePolicy, HoldoutPolicy
from harness.research.evidence.gate import Gate
from harness.research.evidence.holdout import bit, capacity, part_now, part_of, part_score, remembered
from harness.streams import stream


def rng():
    return stream(0, "test")


def test_one_bit_asks_for_strict_improvement():
    policy = HoldoutPolicy()
    assert bit(policy, 0.001, 0.5, rng())
    assert not bit(policy, 0.0, 0.5, rng())
    assert remembered(policy, 0.1234) == 0.1234


def test_the_ladder_asks_for_its_step_and_remembers_no_more():
    policy = HoldoutPolicy(method="ladder", step=0.05)
    assert not bit(policy, 0.04, 0.5, rng())
    assert bit(policy, 0.05, 0.5, rng())
    assert abs(remembered(policy, 0.1234) - 0.10) < 1e-12
    assert remembered(policy, None) is None


def test_thresholdout_refuses_what_is_far_from_what_was_seen():
    policy = HoldoutPolicy(method="thresholdout", threshold=0.04, noise=0.001)
    assert not bit(policy, -0.2, 0.5, rng())
    assert bit(policy, 0.049, 0.05, rng())


def test_thresholdout_passes_noise_alone_once_in_a_hundred():
    policy = HoldoutPolicy(method="thresholdout", threshold=0.04, noise=0.01)
    draws = rng()
    assert sum(bit(policy, 0.0, 0.5, draws) for _ in range(20_000)) / 20_000 < 0.015
    assert sum(bit(policy, 0.1, 0.5, draws) for _ in range(2_000)) / 2_000 > 0.98


def test_thresholdout_counts_what_the_run_has_gained_in_all():
    policy = HoldoutPolicy(method="thresholdout", threshold=0.04, noise=0.0001)
    assert bit(policy, 0.0, 0.03, rng())
    assert not bit(policy, 0.0, 0.03, rng(), gap=0.06)
    assert bit(policy, 0.03, 0.03, rng(), gap=0.06)


def test_rotation_gives_each_part_its_own_surprises():
    policy = HoldoutPolicy(then="rotate", parts=3, surprises=2)
    assert capacity(policy) == 6
    assert [part_now(policy, n) for n in range(7)] == [0, 0, 1, 1, 2, 2, 2]
    assert part_now(HoldoutPolicy(), 3) is None
    assert capacity(HoldoutPolicy(surprises=4)) == 4


@given(st.integers(2, 7), st.integers(0, 40), st.integers(0, 2**31))
def test_parts_are_disjoint_and_cover_everything(parts, count, seed):
    policy = HoldoutPolicy(then="rotate", parts=parts)
    items = {f"i{n}": float(n) for n in range(count)}
    found = [part_of(policy, seed, items, part) for part in range(parts)]
    assert sorted(item for part in found for item in part) == sorted(items)
    assert max(map(len, found)) - min(map(len, found)) <= 1
    assert all((part_score(policy, seed, items, n) is None) == (not part) for n, part in enumerate(found))


def test_alpha_is_never_spent_twice():
    even = Gate(GatePolicy(alpha=0.05, candidates=10), "min", False)
    assert sum(even.alpha(t) for t in range(1, 1000)) <= 0.05 + 1e-12
    assert even.alpha(11) == 0.0
    series = Gate(GatePolicy(alpha=0.05, spending="series"), "min", False)
    assert series.alpha(1000) > 0
    assert 0.049 < sum(series.alpha(t) for t in range(1, 100_000)) < 0.05
