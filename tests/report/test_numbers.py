import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.numbers import as_float, change, count, duration, interval, metric, part


def test_a_missing_metric_is_a_dash_and_never_a_zero():
    assert metric(None) == "-"
    assert metric(0.0) == "0"
    assert metric(-0.0) == "0"
    assert metric(0.123456789) == "0.123457"


@pytest.mark.parametrize(
    ("new", "old", "said"),
    [
        (0.5, 1.0, "-50.0 %"),
        (-0.5, -1.0, "+50.0 %"),
        (None, 1.0, ""),
        (1.0, None, ""),
        (1.0, 0.0, ""),
        (2.0, 2.0, ""),
        (0.99999, 1.0, "0.0 %"),
    ],
)
def test_change_is_relative_to_the_size_of_the_old_value(new, old, said):
    assert change(new, old) == said


@pytest.mark.parametrize(("seconds", "said"), [(-3, "0:00"), (45.4, "0:45"), (723, "12:03"), (28_800, "8:00:00")])
def test_duration(seconds, said):
    assert duration(seconds) == said


@given(st.floats(min_value=0, max_value=1e7))
def test_duration_loses_no_more_than_half_a_second(seconds):
    parts = [int(piece) for piece in duration(seconds).split(":")]
    total = sum(piece * 60**power for power, piece in enumerate(reversed(parts)))
    assert abs(total - seconds) <= 0.5


@pytest.mark.parametrize("value", [True, "0.1", None, [], {}])
def test_only_numbers_are_numbers(value):
    assert as_float(value) is None


def test_parts_and_intervals_of_anything_else_are_empty():
    assert part({"vault": None}, "vault") == {}
    assert part({}, "vault") == {}
    assert interval(None) == ""
    assert interval([0.1]) == ""
    assert interval([0.1, 0.25]) == "[0.1, 0.25]"


def test_a_counter_is_never_an_exponent():
    assert [count(value) for value in (3.0, 2_000_000.0, 0.25)] == ["3", "2000000", "0.25"]
