import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from harness.cli.panel import LiveDisplay, panel
from harness.cli.progress import JsonDisplay, PlainDisplay, Progress, QuietDisplay, plain_line
from harness.events import (
    ModelAwaited,
    RolloutFinished,
    RootMeasured,
    RunFinished,
    RunStarted,
    RunStopped,
    TicketDecided,
    TicketStarted,
)
from harness.records import Decision, Outcome, RolloutKey, Split, Status, Usage, Verdict

HOSTILE = "[bold red]x[/] \x1b[2J\u202e\nnext"


class Hand:
    """A clock that the test moves."""

    def __init__(self):
        self.time = 0.0

    def monotonic(self):
        return self.time

    def now(self):
        return "2026-01-01T00:00:00"


def started(isolation="embedded"):
    return RunStarted("toy-1", "/runs/toy-1", "toy", "error", "min", 7, 2, 10, isolation, False)


def decided(ticket, *, verdict=Verdict.KEPT, note="RATE 0.1 -> 0.2", wall=5.0, limit=100.0):
    return TicketDecided(
        decision=Decision(ticket, verdict, f"v{ticket}", "better"),
        score=0.2 if verdict is Verdict.KEPT else None,
        note=note,
        incumbent="v1",
        incumbent_score=0.2,
        counts={"kept": 1, "crashed": ticket - 1},
        budget={"rollouts": Usage(4, 100), "steps": Usage(ticket, 10), "wall_s": Usage(wall, limit)},
        surprises=1,
    )


def story(note="RATE 0.1 -> 0.2", isolation="embedded"):
    yield started(isolation)
    yield RootMeasured(0.25, True, 0.0)
    yield TicketStarted(1, "v0")
    yield RolloutFinished(RolloutKey("t", Split.VISIBLE, ticket=1), Outcome(Status.OK, 0.2))
    yield decided(1, note=note)
    yield decided(2, verdict=Verdict.CRASHED, note=note)
    yield RunStopped("steps", "all taken")
    yield RunFinished({"state": "finished"})


def drawn(progress):
    console = Console(file=io.StringIO(), width=120, force_terminal=False)
    console.print(panel(progress))
    return console.file.getvalue()


def test_plain_lines_one_a_decision():
    lines = []
    with PlainDisplay(lines.append, Progress(clock=Hand())) as display:
        for event in story():
            display.take(event)
    assert "seed 7, 2 workers, 10 steps, box embedded" in lines[0]
    assert lines[1] == "root v0 0.25 (deterministic)"
    assert [line.split()[2:4] for line in lines[2:4]] == [["v1", "kept"], ["v2", "crashed"]]
    assert "best v1 0.2 -20.0 %" in lines[2]
    assert lines[4:] == ["stopped: steps: all taken", "finished"]


def test_a_title_by_promotion_stands_below_the_line_of_its_ticket():
    title = {"variant": "v1", "mean": 0.9, "interval": [0.7, 0.97], "taken": True}
    event = decided(3, verdict=Verdict.CRASHED)
    event = replace(event, decision=replace(event.decision, evidence={"title": title}))
    first, second = plain_line(Progress(), event).split("\n")
    assert "best v1" in first
    assert second == "    v1, run further, is the best now with 0.9 [0.7, 0.97]"


def test_an_interrupted_run_is_not_called_finished():
    lines = []
    display = PlainDisplay(lines.append)
    display.take(RunFinished({"state": "interrupted"}))
    assert lines == ["interrupted"]


def test_a_ticket_without_a_score_shows_a_dash_and_never_a_zero():
    lines = []
    display = PlainDisplay(lines.append)
    display.take(started())
    display.take(decided(2, verdict=Verdict.CRASHED))
    assert " - " in lines[-1]
    assert " 0 " not in lines[-1]


def test_the_panel_names_step_incumbent_root_verdicts_budget_and_box():
    progress = Progress(clock=Hand())
    for event in story():
        progress.take(event)
    text = drawn(progress)
    for part in (
        "toy-1",
        "box embedded",
        "2/10",
        "root 0.25",
        "best v1 0.2",
        "-20.0 %",
        "kept 1",
        "4/100",
        "surprises 1",
    ):
        assert part in text
    assert "RATE 0.1 -> 0.2" in text


def test_no_isolation_is_said():
    progress = Progress(clock=Hand())
    progress.take(started("process (no isolation)"))
    assert "no isolation" in drawn(progress)


@pytest.mark.parametrize("plain", [True, False])
def test_untrusted_notes_are_encoded_and_never_markup(plain):
    if plain:
        lines = []
        display = PlainDisplay(lines.append)
        for event in story(HOSTILE):
            display.take(event)
        text = "\n".join(lines)
    else:
        progress = Progress(clock=Hand())
        for event in story(HOSTILE):
            progress.take(event)
        text = drawn(progress)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold red]x[/]" in text


def test_the_eta_is_this_sessions_pace_capped_by_the_wall_budget():
    clock = Hand()
    progress = Progress(clock=clock)
    progress.take(started())
    assert progress.eta_s is None
    progress.take(TicketStarted(1, "v0"))
    clock.time = 4.0
    progress.take(decided(2, wall=4.0))
    assert progress.eta_s == 4.0 * 8
    progress.take(decided(3, wall=99.0))
    assert progress.eta_s == 1.0


def test_json_events_are_one_document_a_line():
    lines = []
    with JsonDisplay(lines.append) as display:
        for event in story(HOSTILE):
            display.take(event)
        display.say("draining")
    found = [json.loads(line) for line in lines]
    assert [item["event"] for item in found][:2] == ["RunStarted", "RootMeasured"]
    assert found[4]["decision"]["verdict"] == "kept"
    assert found[-1] == {"event": "Notice", "text": "draining"}


def test_quiet_shows_notices_only():
    lines = []
    with QuietDisplay(lines.append) as display:
        for event in story():
            display.take(event)
        display.say("draining")
    assert lines == ["strop: draining"]


def test_the_live_display_draws_and_stops():
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    with LiveDisplay(console, Progress(clock=Hand())) as display:
        for event in story():
            display.take(event)
        display.say("draining")
    assert "draining" in console.file.getvalue()


def test_what_a_run_waits_for_is_told_until_it_is_over():
    lines = []
    display = PlainDisplay(lines.append)
    display.take(ModelAwaited("main", "cannot connect: refused", 35.0, 1800.0))
    assert lines[0].startswith("waiting for model main: cannot connect: refused, 35 s of 1800")
    assert "35 s of 1800" in display.progress.waiting
    display.take(ModelAwaited("main", "", 0.0, 0.0))
    assert lines[1] == "no longer waiting for model main"
    assert display.progress.waiting == ""
