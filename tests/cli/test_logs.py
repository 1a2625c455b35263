import json
from types import SimpleNamespace

import pytest

from harness.cli import logs


@pytest.fixture(autouse=True)
def _here(runs, monkeypatch):
    monkeypatch.setenv("STROP_RUNS", str(runs))


def test_log_has_every_decision_and_reads_no_markup(strop):
    out = strop("log").out
    assert [line.split()[0] for line in out.splitlines()[2:]] == ["t1", "t2", "t3", "t4", "t5", "t6"]
    assert '<script>alert("strop")</script> [bold]x[/bold] {{ 7*7 }}' in out


def test_log_json(strop):
    found = json.loads(strop("log", "--json").out)
    assert [row["verdict"] for row in found] == ["kept", "discarded", "blocked", "crashed", "kept", "duplicate"]
    assert found[3]["score"] is None
    assert found[4]["incumbent"] == "v5"
    assert found[4]["evidence"]["holdout"]["passed"] is True


def test_log_tsv_leaves_a_crash_without_a_metric(strop):
    lines = [line.split("\t") for line in strop("log", "--tsv").out.splitlines()]
    assert lines[0] == ["commit", "error", "memory_gb", "status", "description"]
    assert lines[1][1:] == ["0.250000", "", "keep", "baseline"]
    assert lines[5][1:] == ["", "", "crash", "STEPS 100 -> None"]
    assert lines[4][0] == ""


def test_json_and_tsv_together_are_refused(strop):
    assert strop("log", "--json", "--tsv").code == 2


@pytest.mark.parametrize("words", [["best"], ["last", "v5"], ["toy-1", "best"], ["t5"]])
def test_show_one_variant(strop, words):
    out = strop("show", *words).out
    assert out.startswith("v5 of run toy-1")
    assert "kept: better, and the gain holds" in out
    assert "+STEPS = 500" in out


def test_show_a_refused_ticket_and_the_root(strop):
    out = strop("show", "t3").out
    assert "none: the proposal was refused" in out
    assert "score.py: changed, but not editable" in out
    assert "as it was given" in strop("show", "root").out
    assert json.loads(strop("show", "root", "--json").out)["ticket"] is None


def test_show_json_has_rollouts_and_the_diff(strop):
    found = json.loads(strop("show", "v4", "--json").out)
    assert found["verdict"] == "crashed"
    assert found["rollouts"][0]["status"] == "agent_error"
    assert found["rollouts"][0]["detail"] == "Traceback: \\x1b[31mred"
    assert found["patch"].startswith("diff --git a/train.py b/train.py\n")


def test_show_needs_a_variant_that_exists(strop):
    assert strop("show").code == 2
    said = strop("show", "v99")
    assert said.code == 2
    assert "v0, v1, v2, v4, v5" in said.err


def test_diff_is_by_default_everything_that_was_won(strop):
    out = strop("diff").out
    assert out == strop("diff", "last", "root", "best").out == strop("diff", "best").out
    assert "-RATE = 0.1\n-STEPS = 100\n+RATE = 0.6\n+STEPS = 500\n" in out


def test_diff_between_two(strop):
    assert "-RATE = 0.2\n" in strop("diff", "v1", "v5").out
    assert strop("diff", "v1", "v1").out == ""


def test_log_and_show_say_why_and_the_json_too(strop, runs):
    assert "(discarded for a reason)" in strop("log").out.splitlines()[3]
    assert json.loads(strop("log", "--json").out)[1]["why"] == "discarded for a reason"
    out = strop("show", "v5").out
    assert "  screen    candidate 0.125, incumbent 0.2" in out
    assert "  holdout   asked yes, passed yes, score 0.2" in out
    assert "{" not in out.partition("diff --git")[0]


def test_a_pipe_gets_lines_without_padding(strop):
    out = strop("log").out
    assert all(line == line.rstrip() for line in out.splitlines())
    assert len(out.splitlines()) == 8


def test_a_narrow_terminal_gets_plain_lines(strop, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    lines = strop("log").out.splitlines()
    assert lines[0] == "v0  root  0.25  as it was given"
    assert lines[1].startswith("t1  v1  v0  kept  0.2  -20.0 %  RATE 0.1 -> 0.2")
    assert len(lines) == 7


def test_what_an_agent_failed_at_is_said_once():
    note = "codex changed nothing: exit 1, last words: oops " * 5
    ticket = SimpleNamespace(note=note, why=f"the agent failed: {note}"[:120], verdict="no_proposal")
    assert logs._noted(ticket) == ticket.why
    other = SimpleNamespace(note="edits train.py", why="crashed: exit 1", verdict="crashed")
    assert logs._noted(other) == "edits train.py  (crashed: exit 1)"
