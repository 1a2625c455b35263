import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.optimizer.admit import admit, fingerprint, unwrap
from harness.optimizer.base import Example, Refusal, Slot
from harness.optimizer.template import placeholders, render

SLOT = Slot("ask", "Answer {question}", required=("question",), engine="braces", max_chars=200)
EXAMPLES = [Example("1", {"question": "2 + 2?"}), Example("2", {"question": "{braces} and {question}"})]
PARENT = {"ask": SLOT.text}


def tried(text, slot=SLOT, seen=()):
    return admit([slot], EXAMPLES, {slot.name: slot.text}, {slot.name: text}, seen)


def test_an_edit_that_keeps_its_placeholder_is_taken():
    assert tried("Think, then answer {question}") == {"ask": "Think, then answer {question}"}


def test_a_dropped_placeholder_is_refused():
    assert tried("Answer the question") == Refusal("ask: drops the placeholder 'question'")


@pytest.mark.parametrize(
    "text", ['Answer {question} as {"answer": 1}', "{question}: use {} and {a b} and {0}", "{question} {{x}}"]
)
def test_literal_braces_are_text(text):
    assert tried(text) == {"ask": text}
    assert render(text, "braces", {"question": "Q"}) == text.replace("{question}", "Q")


def test_an_input_that_looks_like_a_placeholder_is_not_filled_in_again():
    assert render("{question}", "braces", EXAMPLES[1].inputs) == "{braces} and {question}"


def test_jinja_must_render_on_every_example():
    slot = Slot("ask", "{{ question }}", required=("question",), engine="jinja")
    assert tried("{{ question | upper }}", slot) == {"ask": "{{ question | upper }}"}
    assert isinstance(tried("{{ question }} {{ answer }}", slot), Refusal)
    assert isinstance(tried("{{ question", slot), Refusal)
    assert isinstance(tried("{{ question }} {{ ''.__class__.__mro__ }}", slot), Refusal)
    assert isinstance(tried("{{ question }} {{ 1 / 0 }}", slot), Refusal)


def test_jinja_placeholders_are_names():
    assert placeholders("{{ a }} {% for x in b %}{{ x }}{% endfor %}", "jinja") == {"a", "b"}


@pytest.mark.parametrize("reply", [None, "", "   ", "x{question}" * 100, "Do:\n```\n{question} and then"])
def test_no_empty_truncated_or_overlong_reply_is_adopted(reply):
    assert isinstance(tried(reply), Refusal)


@pytest.mark.parametrize(
    "reply",
    [
        "```\nAnswer {question}!\n```",
        "```text\nAnswer {question}!\n```\n",
        "Sure! Here is the improved prompt:\n\n```markdown\nAnswer {question}!\n```\nThis version is clearer.",
        "Here's the revised prompt:\n\nAnswer {question}!",
        "**Improved prompt:** Answer {question}!",
        "New instruction: Answer {question}!",
        '"Answer {question}!"',
        "<prompt>\nAnswer {question}!\n</prompt>",
    ],
)
def test_fences_tags_quotes_and_preamble_come_off(reply):
    assert tried(reply) == {"ask": "Answer {question}!"}


def test_a_fence_that_is_part_of_the_prompt_stays():
    talk = "Reply in this form and no other, since a parser reads it, and it reads nothing else"
    text = f"Answer {{question}}. {talk}:\n```\nx\n```\nDo {{it}}"
    assert unwrap(text) == text


def test_the_same_but_for_white_space_is_a_duplicate():
    seen = [fingerprint({"ask": "Answer  {question}\n now"})]
    assert tried("Answer {question} now", seen=seen) == Refusal("the same as a candidate already tried")


def test_unknown_and_frozen_slots_are_refused():
    assert isinstance(admit([SLOT], EXAMPLES, PARENT, {"other": "x"}, ()), Refusal)
    frozen = Slot("ask", "Answer {question}", frozen=True)
    assert isinstance(tried("Answer {question} now", frozen), Refusal)


def test_demos_must_be_a_json_list():
    slot = Slot("demos", "[]", kind="demos")
    assert tried('[{"inputs": {}}]', slot) == {"demos": '[{"inputs": {}}]'}
    assert isinstance(tried("not json", slot), Refusal)
    assert isinstance(tried("{}", slot), Refusal)


@given(st.text(max_size=150))
def test_whatever_is_admitted_renders_and_keeps_its_placeholder(text):
    made = tried(text)
    if not isinstance(made, Refusal):
        assert "2 + 2?" in render(made["ask"], "braces", EXAMPLES[0].inputs)
