"""Source files: parsed without being run, edited byte by byte."""

from __future__ import annotations

import pytest

from harness.agent.knobs import find
from harness.agent.source import MAX_BYTES, Edit, apply, parse


@pytest.mark.parametrize(
    "data",
    [
        b"def f(:\n",
        b"\xff\xfe",
        b"x = '\x00'\n",
        b"# coding: latin-1\nx = '\xe9'\n",
        b"# coding: nonsense\n",
        b"x = " + b"(" * 5000 + b"1" + b")" * 5000,
        b"x = " + b"9" * 5000,
        b"#" * (MAX_BYTES + 1),
    ],
    ids=["syntax", "bytes", "nul", "latin", "codec", "deep", "digits", "size"],
)
def test_what_cannot_be_read_is_none(data):
    assert parse(data) is None


def test_a_very_long_sum_has_no_knobs_or_some_but_never_fails():
    source = parse(b"A = 0.5\nx = " + b"+".join([b"1"] * 3000))
    assert source is None or isinstance(find("a.py", source), list)


@pytest.mark.parametrize(
    "data",
    [
        "é = 'ü' ; RATE = 0.5  # ß\n".encode(),
        b"\xef\xbb\xbfRATE = 0.5\n",
        b"x = 'a'\r\nRATE = 0.5\r\ny = 1\r\n",
        b"if True:\n\tx = 'a'\n\tRATE = 0.5\n",
        b"x = 'a'\rRATE = 0.5\ry = 1\r",
        b"\x0cRATE = 0.5\n",
        "x = '''\n\N{LINE SEPARATOR}\x0c\n'''\nRATE = 0.5".encode(),
        b"RATE = \\\n  0.5\n",
    ],
    ids=["utf8", "bom", "crlf", "tabs", "cr", "formfeed", "odd lines", "continued"],
)
def test_spans_are_exact_bytes(data):
    (knob,) = [knob for knob in find("a.py", parse(data)) if knob.name.endswith("RATE")]
    assert data[knob.start : knob.end] == b"0.5"
    changed = apply(data, [Edit(knob.start, knob.end, "0.25")])
    assert changed == data.replace(b"0.5", b"0.25")


def test_edits_are_made_together_and_may_not_overlap():
    assert apply(b"abcdef", [Edit(4, 5, "EE"), Edit(1, 2, "")]) == b"acdEEf"
    with pytest.raises(ValueError, match="overlap"):
        apply(b"abcdef", [Edit(1, 3, "x"), Edit(2, 4, "y")])
