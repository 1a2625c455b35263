from hypothesis import given
from hypothesis import strategies as st

from harness.untrusted import clean, line


@given(st.text() | st.binary(max_size=200))
def test_nothing_unprintable_gets_through(text):
    assert all(char in "\n\t" or char.isprintable() for char in clean(text))


@given(st.text() | st.binary(max_size=200))
def test_a_line_is_one_line(text):
    assert "\n" not in line(text)


def test_escapes_are_visible():
    assert clean("\x1b[31mred\x1b[0m") == "\\x1b[31mred\\x1b[0m"
    assert clean("a\u202eb") == "a\\u202eb"
    assert clean("\r\n") == "\\x0d\n"


def test_a_flood_is_cut_and_the_cut_is_said():
    text = clean("x" * 10_000, limit=100)
    assert len(text) < 160
    assert "9900 characters cut" in text


def test_invalid_utf8_is_shown():
    assert clean(b"ok \xff") == "ok \\xff"


def test_a_long_line_is_cut_in_its_middle_on_one_line():
    text = line("a" * 500 + "z" * 500, limit=100)
    assert text == "a" * 47 + " ... " + "z" * 47
    assert line("x" * 100, limit=100) == "x" * 100
