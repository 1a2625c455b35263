"""Texts that attack whoever reads them: templates that take all time and memory, replies that make a reader slow."""

import time

import pytest

from harness.errors import InputError
from harness.evaluation.examples import Said, read_records, said_of
from harness.optimizer.admit import admit, unwrap
from harness.optimizer.base import Example, Refusal, Slot
from harness.optimizer.judge import speaks_to_judge, verdict
from harness.optimizer.playbook import Playbook, additions
from harness.optimizer.template import TemplateRefusedError, placeholders, render

INPUTS = {"question": "what is 2 + 2? " * 40, "items": ["a", "b"], "n": 3}
LONG = 1_000_000
MUCH_S = 20.0  # what is quadratic takes minutes to days at these sizes
LAP = "{% for a in question %}{% for b in question %}{% for c in question %}{{ n }}{% endfor %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    "text",
    [
        "{{ 9 ** 9 ** 9 }}",
        "{{ 'x' * 10 ** 10 }}",
        "{{ '%0999999999d' % 1 }}",
        "{{ '%0999999999d' | format(1) }}",
        "{{ question | center(10 ** 9) }}",
        "{{ ['x'] | map('center', 999999999) | list }}",
        "{{ 1.5 | round(999999999, 'ceil') }}",
        "{{ question | tojson(indent=999999999) }}",
        "{{ question" + " | tojson" * 60 + " }}",
        "{{ question" + " | join(question)" * 9 + " }}",
        "{{ question" + " | join(d=question)" * 9 + " }}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        LAP,
        "{% set a = question %}" + "{% set a = a ~ a %}" * 60 + "{{ a }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% for a in items recursive %}{{ loop(items) }}{% endfor %}",
        "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
        "{% if n %}" * 400 + "{% endif %}" * 400,
        "{{ n" + " + n" * 3000 + " }}",
        "{{ question.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{% include '/etc/passwd' %}",
        "{{ lipsum(99999) }}",
        "{{ items | random }}",
    ],
)
def test_no_template_takes_more_than_it_may(text):
    began = time.monotonic()
    slot = Slot("ask", "{{ question }}", engine="jinja", max_chars=100_000)
    made = admit([slot], [Example("1", INPUTS)], {"ask": slot.text}, {"ask": text}, ())
    assert isinstance(made, Refusal), made
    assert time.monotonic() - began < MUCH_S


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("{% for i in items %}{{ loop.index }}. {{ i }}\n{% endfor %}", "1. a\n2. b\n"),
        ("{% if n > 2 and items %}{{ items | join(', ') }}{% else %}no{% endif %}", "a, b"),
        ("{{ items | tojson }} {{ items | map('upper') | join('/') }} {{ n + 1 }}", '["a", "b"] A/B 4'),
        ("{{ question[:4] ~ '?' }}{{ ' odd' if n is odd }}", "what? odd"),
        ("{% raw %}{{ x }}{% endraw %}{# c #}", "{{ x }}"),
    ],
)
def test_what_a_prompt_needs_is_there(text, made):
    assert render(text, "jinja", INPUTS) == made


def test_a_long_document_is_no_attack():
    text = "word " * 100_000
    assert len(render("{{ document | trim | upper }}", "jinja", {"document": text})) == len(text) - 1


def test_what_has_no_place_in_a_prompt_is_named():
    with pytest.raises(TemplateRefusedError, match="the filter 'center' has no place"):
        placeholders("{{ a | center(9) }}", "jinja")
    with pytest.raises(TemplateRefusedError, match="a call has no place"):
        render("{{ range(3) }}", "jinja", {})


def test_a_required_placeholder_said_twice_is_still_there():
    slot = Slot("ask", "{question}", required=("question",), engine="braces")
    made = admit([slot], [Example("1", {"question": "Q"})], {"ask": slot.text}, {"ask": "{question} or {question}"}, ())
    assert render(made["ask"], "braces", {"question": "Q"}) == "Q or Q"


@pytest.mark.parametrize(
    "piece", ["<prompt>", "<prompt>\n", "```\n", "~~~~\n~~~\n", "\n", " ", "```", "[", "- a\n", "* : "]
)
def test_no_reply_makes_a_reader_slow(piece):
    text = piece * (LONG // len(piece))
    began = time.monotonic()
    unwrap(text)
    additions(text)
    book = Playbook([], most=5, chars=400)
    for one in additions(text):
        book.add(one, 1)
    verdict(text, text, ("persona",))
    speaks_to_judge(text, ("persona",))
    slot = Slot("ask", "x")
    assert isinstance(admit([slot], [], {"ask": "x"}, {"ask": text}, ()), Refusal)
    assert time.monotonic() - began < MUCH_S


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("~~~\na\n~~~", "a"),
        ("see:\n````\n```\nx\n```\n````", "```\nx\n```"),
        ("<text>\n<prompt>p</prompt></text>", "p"),
        ("</prompt><prompt>p</prompt>", "p"),
        ("<prompt>open\n<answer>a</answer>", "a"),
        ("```\nleft open", "```\nleft open"),
    ],
)
def test_fences_and_tags_are_read_as_before(text, inner):
    assert unwrap(text) == inner


def test_a_list_nested_without_end_is_no_list():
    assert additions("[" * 100_000 + "]" * 100_000) == []


def test_outputs_nested_without_end_are_text_or_said_to_be_no_json():
    deep = "[" * 100_000
    assert said_of(deep) == Said(deep)
    assert said_of('{"trace": [{}]}').calls == ()
    with pytest.raises(InputError, match="line 1 is not JSON"):
        read_records(deep.encode(), "outputs.jsonl")
