"""Knobs: which literals look like settings, and that an edit of one changes nothing else."""

from __future__ import annotations

import ast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.agent.knobs import find
from harness.agent.moves import go, ways
from harness.agent.source import Edit, apply, parse


def knobs_in(text):
    data = text if isinstance(text, bytes) else text.encode()
    return {knob.id.removeprefix("a.py::"): knob for knob in find("a.py", parse(data))}


def values_in(text):
    return {place: knob.value for place, knob in knobs_in(text).items()}


SETTINGS = {
    "module constant": ("RATE = 0.1", {"RATE": 0.1}),
    "annotated": ("rate: float = 0.1", {"rate": 0.1}),
    "several at once": ("a, b = 0.1, 3", {"a": 0.1, "b": 3}),
    "negative": ("BIAS = -0.5", {"BIAS": -0.5}),
    "switch": ("FAST = True", {"FAST": True}),
    "default": ("def f(x, rate=0.1, *, deep=3): pass", {"f::(rate=)": 0.1, "f::(deep=)": 3}),
    "keyword": ("fit(rate=0.1)", {"fit(rate=)": 0.1}),
    "field": ("class Config:\n    rate: float = 0.1", {"Config::rate": 0.1}),
    "attribute": ("class A:\n    def __init__(self):\n        self.rate = 0.1", {"A.__init__::rate": 0.1}),
    "table": ("CONFIG = {'rate': 0.1, 'deep': {'wide': 3}}", {"CONFIG['rate']": 0.1, "CONFIG['deep']['wide']": 3}),
    "layers": ("LAYERS = (64, 32)", {"LAYERS[0]": 64, "LAYERS[1]": 32}),
    "option": ("p.add_argument('-r', '--the-rate', type=float, default=0.1, help='x')", {"--the_rate": 0.1}),
    "in a branch": ("if x:\n    RATE = 0.1\nelse:\n    RATE = 0.2", {"RATE": 0.1, "RATE#2": 0.2}),
    "zero that is off": ("DROPOUT = 0.0", {"DROPOUT": 0.0}),
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_settings_are_found_under_a_name_of_their_own(kind):
    text, expected = SETTINGS[kind]
    assert values_in(text) == expected


NOT_SETTINGS = {
    "docstring": '"""0.5 and more"""',
    "f-string": "print(f'{x:.3f} {y * 0.7}')",
    "seed": "SEED = 3",
    "seed by another name": "rng = np.random.default_rng(1234)",
    "seed as keyword": "train(random_seed=17)",
    "version": "__version__ = '1.2'\nVERSION = 3",
    "index": "x = data[3]",
    "slice": "x = data[3:17]",
    "range": "for i in range(3, 17): pass",
    "assert": "assert x < 0.7",
    "raise": "raise ValueError(0.7)",
    "counter": "def f():\n    total = 0\n    best = 0.0\n    done = False",
    "structural": "y = 1.0 / (1.0 + x) * 2 - 0.5 * z",
    "power": "y = x ** 3",
    "return": "def f():\n    return True",
    "mask": "MASK = 0xFF",
    "budget": "TIME_BUDGET = 300\nMAX_TIMEOUT = 5",
    "axis": "x.sum(axis=1)",
    "free text": "NAME = 'hello'",
    "infinite": "BEST = 1e999",
    "huge": "ID = 10000000000000000000",
    "decorator": "@cache(size=3)\ndef f(): pass",
    "annotation": "def f(x: Annotated[int, 17]): pass",
}


@pytest.mark.parametrize("kind", NOT_SETTINGS)
def test_what_is_not_a_setting_is_left_alone(kind):
    assert values_in(NOT_SETTINGS[kind]) == {}


CHOICES = {
    "compared": "K = 'a'\nif K == 'b': pass\nelif K != 'c': pass",
    "contained": "K = 'a'\nx = K in ('b', 'c')",
    "looked up": "T = {'a': 1, 'b': 2, 'c': 3}\nK = 'a'\nT[K]",
    "got": "T = {'b': f, 'c': g}\nK = 'a'\nT.get(K)",
    "matched": "K = 'a'\nmatch K:\n    case 'b' | 'c': pass",
    "annotated": "K: Literal['b', 'c'] = 'a'",
    "passed on": "def f(x, kind): return kind == 'b' or kind == 'c'\nK = 'a'\nf(1, K)",
    "renamed": "K = 'a'\nkind = K\nkind in {'b', 'c'}",
    "by attribute": "class C:\n    K = 'a'\nif C.K == 'b' or cfg.K == 'c': pass",
    "of an option": "p.add_argument('--K', default='a', choices=['b', 'c'])",
}


@pytest.mark.parametrize("kind", CHOICES)
def test_choices_are_inferred_from_the_module(kind):
    (knob,) = [knob for knob in knobs_in(CHOICES[kind]).values() if knob.value == "a"]
    assert sorted(knob.choices) == ["b", "c"]


def test_named_constants_weigh_more_than_numbers_in_the_middle_of_things():
    found = knobs_in("RATE = 0.1\ndef f(x, width=3):\n    y = x * 0.37\n    return clip(y, 17.5)\n")
    assert (
        found["RATE"].weight
        > found["f::(width=)"].weight
        > max(found[k].weight for k in found if "/" in k or "()" in k)
    )


IDENTIFIER = st.sampled_from(["RATE", "width", "Größe", "K", "dropout", "n"])
NUMBER = st.one_of(
    st.floats(min_value=1e-9, max_value=1e9).map(repr),
    st.integers(min_value=0, max_value=10**6).map(str),
    st.sampled_from(["0.0", "True", "False", "1e-3", "5.", ".5", "1_000", "0.999", "-3", "-0.25", "'relu'"]),
)
LINE = st.one_of(
    st.builds("{} = {}".format, IDENTIFIER, NUMBER),
    st.builds("def f{2}(x, {0}={1}): pass".format, IDENTIFIER, NUMBER, st.integers(0, 3)),
    st.builds("é = 'ß'; fit('ü', {0}={1})".format, IDENTIFIER, NUMBER),
    st.builds("T = {{'{0}': {1}, 'tanh': 2}}".format, IDENTIFIER, NUMBER),
    st.builds("y = x * {1} if {0} == 'tanh' else -{1}".format, IDENTIFIER, NUMBER),
    st.just("# comment with 0.5 \N{SNOWMAN}"),
    st.just("class C:\n\tdepth = 4\n\tname = 'x'"),
)


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(LINE, min_size=1, max_size=6),
    newline=st.sampled_from(["\n", "\r\n"]),
    bom=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_an_edit_changes_one_literal_and_nothing_else(lines, newline, bom, seed):
    """The new source parses, differs in the chosen span only, and names the same knobs with one other value."""
    text = newline.join("\n".join(lines).split("\n")) + newline
    data = b"\xef\xbb\xbf" * bom + text.encode()
    rng = np.random.default_rng(seed)
    before = find("a.py", parse(data))
    for knob in before:
        assert data[knob.start : knob.end].decode() == knob.text
        for way in ways(knob):
            move = go(knob, way, float(rng.uniform(0.2, 2.5)), rng)
            if move is None:
                continue
            child = apply(data, [Edit(knob.start, knob.end, move.text)])
            assert child.startswith(data[: knob.start])
            assert child.endswith(data[knob.end :])
            after = {one.id: one.value for one in find("a.py", parse(child))}
            expected = {one.id: one.value for one in before}
            # a number in the middle of arithmetic stops being a knob when it becomes a structural 0, 1 or 2
            changed = {place for place in expected if after.get(place, move.new) != expected[place]}
            assert changed == {knob.id}
            assert after.get(knob.id, move.new) == move.new
            assert type(move.new) is type(knob.value)
            assert _shape(data) == _shape(child)


def _shape(data):
    """The tree with every number, flag and word alike blanked."""
    tree = ast.parse(data)

    class Blank(ast.NodeTransformer):
        def visit_Constant(self, node):
            return ast.Constant(type(node.value).__name__)

    return ast.dump(Blank().visit(tree))


@settings(max_examples=60, deadline=None)
@given(
    value=st.floats(1e-6, 0.999999),
    way=st.sampled_from(["up", "down"]),
    stride=st.floats(0.2, 2.5),
    seed=st.integers(0, 99),
)
def test_shares_stay_between_zero_and_one_and_steps_go_where_they_say(value, way, stride, seed):
    (knob,) = find("a.py", parse(f"DROPOUT = {value!r}\n".encode()))
    move = go(knob, way, stride, np.random.default_rng(seed))
    if move is not None:
        assert 0.0 < move.new < 1.0
        assert (move.new > value) == (way == "up")


@settings(max_examples=60, deadline=None)
@given(value=st.integers(-(10**6), 10**6), stride=st.floats(0.2, 2.5), seed=st.integers(0, 99))
def test_whole_numbers_stay_whole_keep_their_sign_and_always_move(value, stride, seed):
    (knob,) = find("a.py", parse(f"WIDTH = {value}\n".encode()))
    for way in ways(knob):
        move = go(knob, way, stride, np.random.default_rng(seed))
        if move is None:
            assert value == -1
            continue
        assert isinstance(move.new, int)
        assert move.new != value
        assert move.new == 1 or (move.new > 0) == (value > 0)
