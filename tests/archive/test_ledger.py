"""The chains: equal values, equal text; and any row edited, removed, swapped or added is found and named."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.archive.ledger import ZEROS, canonical, items_digest, link, verify_chain
from harness.errors import IntegrityError
from harness.records import Status

ROWS = 8


def a_ledger():
    head, rows = (0, ZEROS, ZEROS), []
    for number in range(ROWS):
        kind = ("run", "session", "root", "ticket")[min(number, 3)]
        ticket = number if kind == "ticket" else None
        body = None if kind == "session" else {"n": number, **({"ticket": number} if kind == "ticket" else {})}
        rows.append(link(head, kind, ticket, body, {"at": f"12:0{number}"}))
        head = (rows[-1].seq, rows[-1].hash, rows[-1].seal)
    return rows


def first_bad(rows) -> str:
    with pytest.raises(IntegrityError) as raised:
        verify_chain(rows)
    return raised.value.record


def test_a_sound_ledger_is_sound():
    rows = a_ledger()
    verify_chain(rows)
    verify_chain([])
    verify_chain(rows[3:], after=(rows[2].seq, rows[2].hash, rows[2].seal))


@pytest.mark.parametrize("at", range(ROWS))
@pytest.mark.parametrize("field", ["kind", "body", "obs", "hash", "seal", "seq", "ticket"])
def test_an_edited_row_is_named(at, field):
    rows = a_ledger()
    edited = {
        "kind": "vault",
        "body": {"n": 99},
        "obs": {"at": "13:00"},
        "hash": "f" * 64,
        "seal": "f" * 64,
        "seq": 99,
        "ticket": 99,
    }[field]
    rows[at] = replace(rows[at], **{field: edited})
    assert first_bad(rows) == f"ledger {at + 1}"


@pytest.mark.parametrize("at", range(ROWS - 1))
def test_a_removed_row_is_named(at):
    rows = a_ledger()
    del rows[at]
    assert first_bad(rows) == f"ledger {at + 1}"


@pytest.mark.parametrize("at", range(ROWS - 1))
def test_swapped_rows_are_named(at):
    rows = a_ledger()
    rows[at], rows[at + 1] = rows[at + 1], rows[at]
    assert first_bad(rows) == f"ledger {at + 1}"
    renumbered = [replace(row, seq=seq) for seq, row in enumerate(rows, 1)]
    assert first_bad(renumbered) == f"ledger {at + 1}"


def test_a_repeated_row_is_named():
    rows = a_ledger()
    rows.insert(4, replace(rows[3], seq=5))
    assert first_bad([*rows[:5], *(replace(row, seq=row.seq + 1) for row in rows[5:])]) == "ledger 5"


def test_a_ticket_out_of_order_is_named():
    rows = [link((0, ZEROS, ZEROS), "ticket", 2, {"ticket": 2}, {})]
    rows.append(link((1, rows[0].hash, rows[0].seal), "ticket", 2, {"ticket": 2}, {}))
    assert first_bad(rows) == "ledger 2"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_canonical_text_reads_back_and_is_the_same_again(value):
    text = canonical(value)
    assert text.isascii()
    assert canonical(json.loads(text)) == text


@given(st.dictionaries(st.text(), st.integers(), max_size=5))
def test_the_order_of_keys_is_nothing(value):
    assert canonical(dict(reversed(value.items()))) == canonical(value)


def test_canonical_spells_what_json_would_blur():
    assert canonical({"b": 1, "a": (1.0, -0.0, 0.1, Status.OK)}) == '{"a":[1.0,-0.0,0.1,"ok"],"b":1}'
    assert canonical(1) != canonical(1.0)
    assert items_digest({}) == ""
    assert items_digest({"a": 1.0}) != items_digest({"a": 0.0})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2}, {1, 2}, b"x", object(), [float("-inf")]])
def test_what_is_not_json_is_refused(value):
    with pytest.raises((ValueError, TypeError)):
        canonical(value)


def test_endless_nesting_is_refused():
    value: list[object] = []
    value.append(value)
    with pytest.raises(ValueError, match="nested"):
        canonical(value)
