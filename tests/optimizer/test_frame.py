import pytest

from harness.optimizer.base import Slot
from harness.optimizer.frame import Frame, frame_of


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("Solve the task.\n\n{question}", "", "\n\n{question}"),
        ("{question}\n\nSolve it.", "{question}\n\n", ""),
        ("{a}\n\nOne.\n\nTwo.\n\n{question}\n\n{a}", "{a}\n\n", "\n\n{question}\n\n{a}"),
        ("Solve {question} now.", "", ""),
        ("One.\n\n{question}\n\nTwo.", "", ""),
        ("{question}", "", ""),
    ],
)
def test_only_paragraphs_around_the_instruction_are_a_frame(text, before, after):
    frame = frame_of(Slot("solve", text, ("question", "a"), "braces"))
    assert frame == Frame(before, after)
    assert frame.around(frame.within(text)) == text


def test_a_jinja_frame_is_one_too_and_raw_text_has_none():
    text = "Solve.\n\n{{ question }}"
    assert frame_of(Slot("solve", text, ("question",), "jinja")).after == "\n\n{{ question }}"
    assert frame_of(Slot("solve", text, ("question",), "raw")) == Frame()
    assert frame_of(Slot("solve", "Solve.\n\n{{ question", ("question",), "jinja")) == Frame()


def test_a_text_that_left_its_frame_is_itself():
    frame = frame_of(Slot("solve", "Solve.\n\n{question}", ("question",), "braces"))
    assert frame.within("Something else") == "Something else"
    assert frame.around("  New. ") == "New.\n\n{question}"
