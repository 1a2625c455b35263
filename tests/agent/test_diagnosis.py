import pytest

from harness.agent.base import Trace
from harness.agent.diagnosis import KINDS, diagnose
from harness.records import Attempt, Status, Verdict
from harness.streams import stream

FAILED = Trace("t1", 0, Status.OK, 0.0, "I gave up")
SOLVED = Trace("t2", 0, Status.OK, 1.0, "done")
SHAKY = (Trace("t3", 0, Status.OK, 1.0), Trace("t3", 1, Status.OK, 0.0))
LONG = Trace("t4", 0, Status.AGENT_ERROR, None, "error: maximum context length exceeded")
CLUMSY = Trace("t5", 0, Status.OK, 0.0, "tool error: ValueError: the old text is 0 times in a.py")


def told(traces, ticket=1, history=()):
    return diagnose(traces, history, "v3", ticket, stream(0, "agent", ticket))


def attempt(verdict, parent="v3"):
    return Attempt(1, parent, None, verdict, None, 0.5, "made prompts shorter", {})


@pytest.mark.parametrize(
    ("kind", "traces", "task"),
    [
        ("unresolved", [SOLVED, FAILED], "t1"),
        ("unstable", [SOLVED, *SHAKY], "t3"),
        ("context", [SOLVED, LONG], "t4"),
        ("tools", [SOLVED, CLUMSY], "t5"),
    ],
)
def test_each_kind_is_seen_in_its_turn(kind, traces, task):
    found = told(traces, 1 + KINDS.index(kind))
    assert (found.kind, found.task) == (kind, task)
    assert task in found.text


def test_an_edit_that_changed_nothing_is_told_once_it_happened():
    turn = 1 + KINDS.index("empty")
    assert told([FAILED], turn).kind != "empty"
    assert told([FAILED], turn, [attempt(Verdict.DUPLICATE, "v9")]).kind != "empty"
    assert told([FAILED], turn, [attempt(Verdict.DUPLICATE)]).kind == "empty"


def test_kinds_rotate_and_what_is_not_there_is_passed_over():
    everything = [FAILED, *SHAKY, LONG, CLUMSY]
    history = [attempt(Verdict.DUPLICATE)]
    assert [told(everything, ticket, history).kind for ticket in range(1, 6)] == list(KINDS)
    assert told([SOLVED]).kind == "general"
    assert told([]).kind == "general"


def test_what_was_tried_from_here_is_told():
    text = told([FAILED], history=[attempt(Verdict.ARCHIVED), attempt(Verdict.BLOCKED, "v1")]).text
    assert text.count("made prompts shorter") == 1
    assert "archived" in text


def test_a_box_that_failed_is_nobodys_failure():
    assert told([Trace("t1", 0, Status.INFRA_ERROR, None)]).kind == "general"
