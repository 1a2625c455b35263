"""The engine end to end on a tiny subject, in real boxes."""

import json
import shutil
import sqlite3
from contextlib import closing
from itertools import pairwise

import pytest
from support.toy import NOISY_TRAIN, SCORE, STROP, TRAIN, make_toy

from harness import find_run, open_run, resume_run, summarize
from harness.archive.sqlite import SqliteArchive
from harness.errors import InputError, StorageError
from harness.events import RootMeasured, RunFinished, RunStarted, RunStopped, TicketDecided
from harness.research.verify import verify

BOX = "embedded"


async def play(subject, runs, *, script=None, agent=None, steps=None, workers=1, seed=0, **settings):
    """Run to the end; the events."""
    chosen = {"box.backend": BOX, "agent.name": agent or "search", **settings}
    if script is not None:
        chosen |= {"agent.name": "support.agents:Scripted", "agent.config": {"script": script}}
    if steps or script:
        chosen["budget.steps"] = steps or len(script)
    async with open_run(subject, seed=seed, workers=workers, overrides=chosen, runs=runs) as run:
        events = [event async for event in run.events]
    return events, run


def verdicts(events):
    return [event.decision.verdict.value for event in events if isinstance(event, TicketDecided)]


async def bodies(folder):
    archive = await SqliteArchive.view(folder)
    try:
        return [(row.kind, row.body) for row in await archive.ledger() if row.body is not None]
    finally:
        await archive.aclose()


async def test_a_run_keeps_what_is_better_and_says_so(tmp_path):
    events, run = await play(make_toy(tmp_path / "toy"), tmp_path / "runs", script=["value 50", "value 30", "value 69"])
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunFinished)
    assert verdicts(events) == ["kept", "discarded", "kept"]
    summary = run.summary
    assert summary["state"] == "finished"
    assert summary["root"] == {"id": "v0", "metric": pytest.approx(0.5, abs=0.01)}
    assert summary["incumbent"]["id"] == "v3"
    assert summary["holdout"]["queries"] == 2
    assert summary["holdout"]["surprises"] == 0
    assert summary["vault"]["best"]["metric"] < 0.03 < summary["vault"]["root"]["metric"]
    assert summary["vault"]["gain"]["p_bootstrap"] < 0.001
    low, high = summary["vault"]["best"]["ci"]
    assert low <= summary["vault"]["best"]["metric"] <= high
    # root: 2 visible + 1 holdout; tickets: 3 visible + 2 rechecks + 2 holdout; vault: 2
    assert summary["budget"]["rollouts"] == {"used": 12, "limit": 1000}
    report = await verify(run.folder)
    assert report is not None


@pytest.mark.parametrize("workers", [1, 2, 4])
async def test_same_seed_and_workers_same_ledger(tmp_path, workers):
    subject = make_toy(tmp_path / "toy")
    heads = set()
    for attempt in range(2):
        _, run = await play(subject, tmp_path / f"runs{attempt}", steps=10, workers=workers, seed=3)
        heads.add(run.summary["ledger_head"])
    assert len(heads) == 1


async def test_another_seed_another_search(tmp_path):
    subject = make_toy(tmp_path / "toy")
    notes = []
    for seed in (0, 1):
        events, _ = await play(subject, tmp_path / f"runs{seed}", steps=4, seed=seed)
        notes.append([event.note for event in events if isinstance(event, TicketDecided)])
    assert notes[0] != notes[1]


async def test_whatever_is_not_editable_is_blocked_and_never_run(tmp_path):
    script = [
        "write lib.py",
        "write new.py",
        "remove lib.py",
        "write data/train.csv",
        "link /etc/passwd",
        "write ../up",
    ]
    events, run = await play(make_toy(tmp_path / "toy"), tmp_path / "runs", script=script)
    assert verdicts(events) == ["blocked"] * len(script)
    assert run.summary["budget"]["rollouts"]["used"] == 4  # the root's three and one vault run
    assert run.summary["incumbent"]["id"] == "v0"
    assert not (tmp_path / "up").exists()


@pytest.mark.parametrize(
    ("source", "verdict", "word"),
    [
        ("raise SystemExit(3)", "crashed", "exit code 3"),
        ("def (", "crashed", "SyntaxError"),
        ("import os; os._exit(0)", "crashed", "no score"),
        ("while True: pass", "timed_out", "deadline"),
        ("open('/out/predictions.csv', 'w').write('v0,nan')", "crashed", "no score"),
        ("import os; os.symlink('/etc/passwd', '/out/predictions.csv')", "crashed", "symlink"),
        ("import os; os.mkfifo('/out/predictions.csv')", "crashed", "fifo"),
        ("import shutil; shutil.rmtree('/work', ignore_errors=True)", "crashed", "no score"),
        ("open('/result/result.json', 'w').write('{\"error\": 0}')", "crashed", "no score"),
        ("print('x' * 100_000_000)", "crashed", ""),
    ],
)
async def test_bad_candidates_get_a_verdict_and_the_run_goes_on(tmp_path, source, verdict, word):
    subject = make_toy(tmp_path / "toy", strop=STROP.replace("timeout_s = 10", "timeout_s = 2"))
    events, run = await play(subject, tmp_path / "runs", script=[f"source {source}", "value 60"])
    assert verdicts(events) == [verdict, "kept"]
    assert word in events[[isinstance(e, TicketDecided) for e in events].index(True)].decision.reason
    assert run.summary["state"] == "finished"


@pytest.mark.parametrize(
    "written",
    [
        "'garbage'",
        "'{\"error\": NaN}'",
        "''",
        '\'{"error": 0.1}{"error": 0.2}\'',
        "'{\"error\": true}'",
        "'{\"error\": 7}'",
    ],
)
async def test_a_scorer_that_writes_no_score_is_the_users_to_mend(tmp_path, written):
    score = f"open('/result/result.json', 'w').write({written})"
    with pytest.raises(InputError, match="the root itself has no score"):
        await play(make_toy(tmp_path / "toy", score=score), tmp_path / "runs", script=["value 60"])
    state = await summarize(find_run(None, tmp_path / "runs"))
    assert state["state"] == "interrupted"
    assert state["root"] is None


async def test_a_scorer_that_floods_its_log_still_scores(tmp_path):
    score = SCORE + "\nprint('y' * 3_000_000)\n"
    events, _ = await play(make_toy(tmp_path / "toy", score=score), tmp_path / "runs", script=["value 60"])
    assert verdicts(events) == ["kept"]


async def test_hard_coded_visible_answers_do_not_pass_the_holdout(tmp_path):
    script = [f"memorise {70 - n}" for n in range(4)]
    events, run = await play(make_toy(tmp_path / "toy"), tmp_path / "runs", script=script, **{"holdout.surprises": 2})
    assert set(verdicts(events)) == {"discarded"}
    assert run.summary["incumbent"]["id"] == "v0"
    assert run.summary["holdout"]["surprises"] == 2
    assert run.summary["holdout"]["verdict"] == "worn out"
    stopped = next(event for event in events if isinstance(event, RunStopped))
    assert stopped.reason == "holdout"


async def test_a_discard_reads_the_same_whoever_vetoed_it(tmp_path):
    subject = make_toy(tmp_path / "toy", targets={"holdout": 10})
    events, _ = await play(subject, tmp_path / "runs", script=["value 60", "value 15"])
    assert verdicts(events) == ["discarded", "discarded"]
    assert len({event.decision.reason for event in events if isinstance(event, TicketDecided)}) == 1


async def test_nothing_of_the_holdout_reaches_a_proposer(tmp_path):
    events, _ = await play(make_toy(tmp_path / "toy"), tmp_path / "runs", agent="support.agents:Nosy", steps=4)
    shown = " ".join(event.note for event in events if isinstance(event, TicketDecided))
    assert "holdout" not in shown
    assert "1:kept" in shown


async def test_a_noisy_metric_is_found_out_and_gated(tmp_path):
    subject = make_toy(tmp_path / "toy", train=NOISY_TRAIN)
    events, run = await play(subject, tmp_path / "runs", script=["value 20.1", "value 65"], **{"gate.candidates": 2})
    root = next(event for event in events if isinstance(event, RootMeasured))
    assert not root.deterministic
    assert 0 < root.noise < 0.05
    assert verdicts(events)[1] == "kept"
    ticket = next(body for kind, body in await bodies(run.folder) if kind == "ticket" and body["ticket"] == 2)
    assert len(ticket["decision"]["evidence"]["confirm"]["candidate"]) == 4
    seeds = {row["seed"] for row in ticket["rollouts"] if "/confirm/" in row["key"]}
    assert len(seeds) == 4
    assert run.summary["vault"]["best"]["interval"].startswith("95 %")


async def test_the_same_tree_is_not_paid_for_twice(tmp_path):
    events, run = await play(make_toy(tmp_path / "toy"), tmp_path / "runs", script=["value 10", "value 10", "value 20"])
    assert verdicts(events) == ["discarded", "duplicate", "duplicate"]
    assert run.summary["budget"]["rollouts"]["used"] == 5


async def test_a_failing_agent_and_an_idle_one(tmp_path):
    events, run = await play(
        make_toy(tmp_path / "toy"), tmp_path / "runs", script=["fail", "value 60", "none"], steps=9
    )
    assert verdicts(events)[:3] == ["no_proposal", "kept", "no_proposal"]
    assert run.summary["stop"]["reason"] == "exhausted"
    assert run.summary["steps"]["done"] < 9


async def test_an_agent_that_keeps_failing_is_given_up_and_not_called_exhausted(tmp_path):
    _, run = await play(
        make_toy(tmp_path / "toy"),
        tmp_path / "runs",
        script=["fail", "fail", "fail", "value 60", *["fail"] * 9],
        steps=12,
        **{"stop.agent_failures": 4},
    )
    assert run.summary["stop"] == {
        "reason": "agent",
        "detail": "the agent failed 4 times in a row; `strop log` says how",
    }
    assert run.summary["counts"] == {"no_proposal": 7, "kept": 1}


@pytest.mark.parametrize(
    ("act", "word"),
    [
        ("raises", "RuntimeError: boom \\x1b[31m"),
        ("exits", "SystemExit"),
        ("cancels", "cancelled itself"),
        ("number", "answered a int"),
        ("text_change", "changes"),
        ("no_changes", "changes"),
        ("nan_memo", "memo is not JSON"),
        ("object_memo", "memo is not JSON"),
        ("huge_memo", "memo has"),
        ("no_note", "note is a NoneType"),
        ("odd_tree", "no Entry"),
    ],
)
async def test_a_rogue_agent_fails_its_ticket_and_nothing_else(tmp_path, act, word):
    chosen = {"agent.config": {"act": act}}
    events, run = await play(
        make_toy(tmp_path / "toy"), tmp_path / "runs", agent="support.rogues:Rogue", steps=2, **chosen
    )
    assert verdicts(events) == ["no_proposal", "kept"]
    assert word in next(event for event in events if isinstance(event, TicketDecided)).decision.reason
    assert run.summary["state"] == "finished"


async def test_an_agent_that_does_not_start_is_named_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="does not start: ValueError: no"):
        await play(
            make_toy(tmp_path / "toy"),
            tmp_path / "runs",
            agent="support.rogues:Rogue",
            steps=2,
            **{"agent.config": {"act": "init"}},
        )
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("limit", range(1, 5))
async def test_a_budget_too_small_for_root_and_vault_is_refused(tmp_path, limit):
    with pytest.raises(InputError, match="at least 5"):
        await play(make_toy(tmp_path / "toy"), tmp_path / "runs", script=["value 60"], **{"budget.rollouts": limit})
    assert not (tmp_path / "runs").exists()


async def test_a_budget_too_small_for_a_noisy_metric_is_never_passed(tmp_path):
    subject = make_toy(tmp_path / "toy", train=NOISY_TRAIN)
    with pytest.raises(InputError, match="noisy metric"):
        await play(subject, tmp_path / "runs", script=["value 60"], **{"budget.rollouts": 6})
    summary = await summarize(find_run(None, tmp_path / "runs"))
    assert summary["budget"]["rollouts"]["used"] <= 6


async def test_a_perfect_winner_does_not_change_how_intervals_are_taken(tmp_path):
    labels = SCORE.replace("/ 100", "// 1")
    _, run = await play(
        make_toy(tmp_path / "toy", score=labels, strop=STROP.replace("range = [0.0, 1.0]", "range = [0.0, 9.0]")),
        tmp_path / "runs",
        script=["value 70"],
    )
    vault = run.summary["vault"]
    assert vault["root"]["interval"].split(" over")[0] == vault["best"]["interval"].split(" over")[0]


async def test_no_range_no_epsilon(tmp_path):
    strop = STROP.replace("range = [0.0, 1.0]\n", "")
    _, run = await play(make_toy(tmp_path / "toy", strop=strop), tmp_path / "runs", script=["value 60"])
    assert run.summary["holdout"]["queries"] == 1
    assert run.summary["holdout"]["eps"] is None


async def test_a_run_folder_that_vanishes_is_a_storage_error(tmp_path):
    async def lose_the_folder():
        subject, settings = make_toy(tmp_path / "toy"), {"box.backend": BOX}
        async with open_run(subject, overrides=settings, runs=tmp_path / "runs") as run:
            async for event in run.events:
                if isinstance(event, RootMeasured):
                    shutil.rmtree(run.folder)

    with pytest.raises(StorageError, match="gone"):
        await lose_the_folder()


async def test_what_status_tells_is_sealed(tmp_path):
    """Notes beside the ledger can be edited by whoever owns the folder; nothing that is reported rests on them."""
    _, run = await play(make_toy(tmp_path / "toy"), tmp_path / "runs", script=["value 60"])
    before = await summarize(run.folder)
    assert before["isolation"] == BOX
    with closing(sqlite3.connect(run.folder / "run.db")) as database, database:
        database.execute("UPDATE state SET state = 'running'")
        database.execute("DELETE FROM sessions")
        database.execute("""INSERT OR REPLACE INTO meta VALUES ('isolation', '"docker"')""")
    after = await summarize(run.folder)
    assert {**after, "budget": None} == {**before, "budget": None}
    assert after["budget"]["wall_s"]["used"] >= 0.9 * before["budget"]["wall_s"]["used"]


@pytest.mark.parametrize("limit", range(7, 14))
@pytest.mark.parametrize("workers", [1, 3])
async def test_rollouts_never_pass_their_budget(tmp_path, limit, workers):
    script = [f"value {value}" for value in (25, 30, 35, 40, 45, 50)]
    _, run = await play(
        make_toy(tmp_path / "toy"), tmp_path / "runs", script=script, workers=workers, **{"budget.rollouts": limit}
    )
    assert run.summary["budget"]["rollouts"]["used"] <= limit
    assert run.summary["stop"]["reason"] == "rollouts"
    assert run.summary["vault"]["best"]["metric"] is not None


async def test_plateau_and_stop_file_end_a_run(tmp_path):
    subject = make_toy(tmp_path / "toy")
    script = [f"value {value}" for value in (60, 5, 6, 7, 8, 9)]
    _, run = await play(subject, tmp_path / "runs", script=script, **{"stop.plateau": 3})
    assert run.summary["stop"]["reason"] == "plateau"
    assert run.summary["steps"]["done"] == 4
    chosen = {"box.backend": BOX, "agent.name": "support.agents:Scripted", "agent.config": {"script": script}}
    async with open_run(subject, workers=1, overrides=chosen, runs=tmp_path / "runs") as run:
        async for event in run.events:
            if isinstance(event, TicketDecided) and event.decision.ticket == 1:
                (run.folder / "stop").touch()
    assert run.summary["stop"]["reason"] == "stop file"
    assert run.summary["state"] == "finished"


async def test_draining_pauses_and_resuming_ends_like_an_uninterrupted_run(tmp_path):
    subject = make_toy(tmp_path / "toy")
    _, whole = await play(subject, tmp_path / "whole", steps=8, workers=2, seed=5)
    settings = {"box.backend": BOX, "budget.steps": 8}
    async with open_run(subject, seed=5, workers=2, overrides=settings, runs=tmp_path / "runs") as run:
        async for event in run.events:
            if isinstance(event, TicketDecided) and event.decision.ticket == 3:
                run.drain()
    assert run.summary["state"] == "interrupted"
    assert 3 <= run.summary["steps"]["done"] < 8
    async with resume_run(run.folder) as resumed:
        async for _ in resumed.events:
            pass
    assert resumed.summary["state"] == "finished"
    assert resumed.summary["ledger_head"] == whole.summary["ledger_head"]
    with pytest.raises(InputError, match="is finished"):
        async with resume_run(run.folder):
            pass


async def test_leaving_the_block_early_interrupts_and_leaves_nothing_running(tmp_path):
    settings = {"box.backend": BOX}
    async with open_run(make_toy(tmp_path / "toy"), overrides=settings, runs=tmp_path / "runs") as run:
        async for event in run.events:
            if isinstance(event, RootMeasured):
                break
    state = await summarize(run.folder)
    assert state["state"] == "interrupted"
    async with resume_run(run.folder) as resumed:
        resumed.drain()
        async for _ in resumed.events:
            pass
    assert resumed.summary["root"] is not None


async def test_wall_time_is_a_limit(tmp_path):
    slow = TRAIN.replace("ids =", "import time; time.sleep(0.3)\nids =")
    _, run = await play(make_toy(tmp_path / "toy", train=slow), tmp_path / "runs", steps=100, **{"budget.wall_s": 9.0})
    assert run.summary["stop"]["reason"] == "wall"
    assert run.summary["budget"]["wall_s"]["used"] <= 9.0
    assert run.summary["vault"]["root"] is not None or "wall time ran out" in run.summary["vault"]["why"]


async def test_names_with_spaces_and_unicode(tmp_path):
    subject = make_toy(tmp_path / "mein Ordner \u00fc\u4e2d")
    events, run = await play(subject, tmp_path / "r\u00fcns here", script=["value 60"])
    assert verdicts(events) == ["kept"]
    assert (await summarize(run.folder))["state"] == "finished"


async def test_records_are_json_and_in_order(tmp_path):
    _, run = await play(make_toy(tmp_path / "toy"), tmp_path / "runs", steps=5, workers=3)
    rows = await bodies(run.folder)
    assert [kind for kind, _ in rows] == ["run", "root", *["ticket"] * 5, "stop", "vault"]
    tickets = [body["ticket"] for kind, body in rows if kind == "ticket"]
    assert all(b - a == 1 for a, b in pairwise(tickets))
    assert json.loads(json.dumps(run.summary)) == run.summary
