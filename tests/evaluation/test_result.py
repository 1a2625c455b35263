import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.evaluation.result import MAX_BYTES, ResultRefusedError, parse_number, parse_result
from harness.research.evidence.gate import noise
from harness.research.evidence.paired import averages
from harness.research.evidence.statistics import lower_bound

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def parse(data, allowed=(0.0, 1.0)):
    return parse_result(data if isinstance(data, bytes) else data.encode(), metric="error", allowed=allowed)


def test_a_plain_result():
    result = parse('{"error": 0.25, "items": {"a": 1, "b": 0.5}}')
    assert result.score == 0.25
    assert result.items == {"a": 1.0, "b": 0.5}


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "garbage",
        "0.5",
        "[0.5]",
        "null",
        "{}",
        '{"score": 0.5}',
        '{"error": NaN}',
        '{"error": Infinity}',
        '{"error": -Infinity}',
        '{"error": 1e999}',
        '{"error": true}',
        '{"error": "0.5"}',
        '{"error": null}',
        '{"error": [0.5]}',
        '{"error": 0.5, "error": 0.1}',
        '{"error": 0.5}{"error": 0.1}',
        '{"error": 0.5} trailing',
        '{"error": 0.5, "extra": 1}',
        '{"error": 1.5}',
        '{"error": -0.1}',
        '{"error": 0.5, "items": []}',
        '{"error": 0.5, "items": {"a": true}}',
        '{"error": 0.5, "items": {"a": NaN}}',
        '{"error": 0.5, "items": {"a": 1, "a": 0}}',
        '{"error": 0.5, "items": {"": 1}}',
        '{"error": 0x1}',
        '{"error": .5}',
        '{"error": 1_0}',
        '{"error": 0.' + "1" * 60 + "}",
        '{"error": ' + "9" * 5000 + "}",
        '{"error": \u0660.5}',
        '{"error": \uff10.5}',
        '\ufeff{"error": 0.5}',
        "[" * 100_000,
        '{"items":' * 50_000,
        '{"error": 1e309}',
        '{"error": 1E+400}',
        '{"error": 0x1p-2}',
        '{"error": 1_0.5}',
        '{"error": +0.5}',
        '{"error": 00.5}',
        '{"error": 1.}',
        '{"error": 1e}',
        '{"error": 0.5, "items": {"a": 1e101}}',
        '{"error": 0.5, "items": {"a": 1e308, "b": 1e308}}',
        '{"error": 0.5, "items": {"\\ud800": 1}}',
        '{"error": 0.5, "items": {"a": {"b": 1}}}',
        '{"error": 0.5, "err\\u006fr": 0.1}',
        '{"error": 0.5, "items": {"a": 1, "\\u0061": 0}}',
        '{"error": 0.5}\x00',
        '\x0b{"error": 0.5}',
        '{"error": 0.5,}',
        "{'error': 0.5}",
        '/* */{"error": 0.5}',
    ],
)
def test_everything_else_is_refused_in_one_line(text):
    with pytest.raises(ResultRefusedError) as refused:
        parse(text)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-16", "utf-8-sig", "utf-7"]
)
def test_only_ascii_is_read_whatever_json_would_guess(encoding):
    data = '{"error": 0.5}'.encode(encoding)
    if encoding == "utf-7":
        data = data.replace(b'"', b"+ACI-")
    with pytest.raises(ResultRefusedError):
        parse(data)


def test_zero_has_no_sign_and_item_ids_may_be_any_text():
    result = parse('{"error": -0.0, "items": {"a": -0, "x\\ny": 1}}')
    assert [math.copysign(1.0, value) for value in (result.score, *result.items.values())] == [1.0, 1.0, 1.0]
    assert set(result.items) == {"a", "x\ny"}


def test_the_largest_results_leave_statistics_finite():
    items = {f"{n}": (-1) ** n * 1e100 for n in range(1000)}
    parsed = parse(json.dumps({"error": 0.0, "items": items}))
    assert averages(0.0, parsed.items)
    assert math.isfinite(lower_bound(list(parsed.items.values()), 0.05))
    assert math.isfinite(noise(list(parsed.items.values())))


def test_too_long_is_refused_before_it_is_parsed():
    with pytest.raises(ResultRefusedError, match="bytes"):
        parse(b'{"error": 0.5' + b" " * MAX_BYTES + b"}")


@given(st.binary(max_size=200))
def test_no_bytes_make_it_raise_anything_else(data):
    try:
        result = parse(data, None)
    except ResultRefusedError:
        return
    assert math.isfinite(result.score)


@given(json_values)
def test_no_json_makes_it_raise_anything_else(value):
    try:
        result = parse(json.dumps(value), (0.0, 1.0))
    except ResultRefusedError:
        return
    assert 0.0 <= result.score <= 1.0
    assert type(value["error"]) in (int, float)


@given(st.floats(0, 1), st.dictionaries(st.text("ab\u00e9", min_size=1, max_size=5), st.floats(-5, 5)))
def test_what_a_scorer_writes_comes_back(score, items):
    result = parse(json.dumps({"error": score, "items": items}))
    assert (result.score, result.items) == (score, items)


@pytest.mark.parametrize("text", ["0.5", "-1", "1e-3", "10", "0"])
def test_numbers_from_stdout(text):
    assert parse_number(text, metric="m", allowed=None) == float(text)


@pytest.mark.parametrize("text", ["", "nan", "inf", "1e999", "0.5 ", "+1", "01", "1,0", "0x1", "\u0661", "1" * 41])
def test_other_texts_are_no_numbers(text):
    with pytest.raises(ResultRefusedError):
        parse_number(text, metric="m", allowed=None)
