"""A promoted variant may take the title, on the same terms as a child, and only so."""

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest
from support.worlds import write_two_faced

import harness
from harness.archive.sqlite import SqliteArchive
from harness.research.evidence.posterior import Share
from harness.research.replay import replay
from harness.research.verify import verify
from harness.testing.ladder import write_ladder

SOUND, BETTER, FALSE, PERFECT_LIE = "0.9 0.9 0", "1.0 1.0 0", "0.9 0.1 0", "1.0 0.1 0"


async def play(subject, runs, seed=1, *, resume=False, stop_after=None, **overrides):
    overrides = {"budget.rollouts": 5000, **overrides}
    opened = None if resume else harness.open_run(subject, seed=seed, runs=runs, overrides=overrides)
    async with opened or harness.resume_run(subject) as run:
        decided = 0
        async for event in run.events:
            decided += type(event).__name__ == "TicketDecided"
            if stop_after and decided == stop_after:
                run.drain()
    return run


async def bodies_of(run):
    archive = await SqliteArchive.view(run.folder)
    bodies = [entry.body for entry in await archive.tickets()]
    await archive.aclose()
    return bodies


async def play_versions(tmp_path, *versions, **overrides):
    subject = write_two_faced(tmp_path / "subject", *versions)
    run = await play(subject, tmp_path / "runs", **{"budget.steps": len(versions), **overrides})
    assert (await verify(run.folder)).tickets == (await replay(run.folder)).tickets
    return run, await bodies_of(run)


async def test_a_promoted_parent_that_leads_and_holds_is_the_best(tmp_path):
    run, (first, second) = await play_versions(tmp_path, SOUND, "0.2 0.2 0")
    assert first["decision"]["verdict"] == "archived"
    assert first["incumbent"] == "v0"
    title = second["decision"]["evidence"]["title"]
    assert (title["variant"], title["taken"], title["stage"], title["run"]) == ("v1", True, 2, 20)
    assert title["holdout"] == {"asked": True, "passed": True, "score": 0.9}
    assert title["screen"]["gain"] > 0
    assert second["decision"]["verdict"] == "archived"
    assert second["incumbent"] == "v1"
    known = Share(18, 2)
    told = {"id": "v1", "metric": pytest.approx(known.mean), "interval": pytest.approx(known.interval())}
    assert run.summary["incumbent"] == told
    assert run.summary["holdout"]["queries"] == 1
    assert run.summary["holdout"]["verdict"] == "holds"
    asked = [one["key"] for one in second["rollouts"] if "/holdout/" in one["key"]]
    assert asked == [f"2/holdout/holdout/0/{first['variant']['tree']}"]


async def test_a_promoted_parent_that_does_not_hold_is_a_surprise_and_not_the_best(tmp_path):
    run, (_, second) = await play_versions(tmp_path, FALSE, "0.2 0.2 0")
    title = second["decision"]["evidence"]["title"]
    assert not title["taken"]
    assert title["holdout"]["passed"] is False
    assert second["incumbent"] == run.summary["incumbent"]["id"] == "v0"
    assert (run.summary["holdout"]["queries"], run.summary["holdout"]["surprises"]) == (1, 1)


async def test_the_better_of_child_and_parent_asks_first_and_a_taken_title_is_not_asked_for_again(tmp_path):
    run, (_, second) = await play_versions(tmp_path, SOUND, BETTER)
    assert second["decision"]["verdict"] == "kept"
    assert "title" not in second["decision"]["evidence"]
    assert second["incumbent"] == "v2"
    assert run.summary["holdout"]["queries"] == 1


async def test_where_the_child_does_not_hold_the_parent_beside_it_may(tmp_path):
    run, (_, second) = await play_versions(tmp_path, SOUND, PERFECT_LIE)
    evidence = second["decision"]["evidence"]
    assert evidence["holdout"] == {"asked": True, "passed": False, "score": 0.1}
    assert evidence["title"]["taken"]
    assert second["decision"]["verdict"] == "archived"
    assert second["incumbent"] == "v1"
    assert (run.summary["holdout"]["queries"], run.summary["holdout"]["surprises"]) == (2, 1)


async def test_a_holdout_that_the_child_wore_out_is_not_asked_by_the_parent_beside_it(tmp_path):
    run, (_, second) = await play_versions(tmp_path, SOUND, PERFECT_LIE, **{"holdout.surprises": 1})
    title = second["decision"]["evidence"]["title"]
    assert title["holdout"] == {"asked": False, "passed": False, "why": "worn out"}
    assert second["incumbent"] == "v0"
    assert (run.summary["holdout"]["queries"], run.summary["holdout"]["surprises"]) == (1, 1)


async def test_a_ticket_without_a_child_still_gives_its_parent_the_title(tmp_path):
    run, (_, second) = await play_versions(tmp_path, SOUND, SOUND.replace("0 ", "0"), **{"archive.novelty": 0.5})
    assert second["decision"]["verdict"] == "duplicate"
    assert second["incumbent"] == run.summary["incumbent"]["id"] == "v1"


async def test_without_promotion_nobody_but_a_child_takes_the_title(tmp_path):
    run, bodies = await play_versions(tmp_path, SOUND, "0.2 0.2 0", **{"stages.promote": False})
    assert run.summary["incumbent"]["id"] == "v0"
    assert not any("title" in body["decision"]["evidence"] or body["archive"].get("again") for body in bodies)


async def test_a_title_by_promotion_counts_as_progress(tmp_path):
    versions = [SOUND, *["0.2 0.2 0"] * 4]
    run, bodies = await play_versions(tmp_path, *versions, **{"stop.plateau": 2})
    assert len(bodies) == 4
    assert run.summary["stop"]["reason"] == "plateau"


async def test_noisy_rivals_of_one_ticket_are_asked_on_fresh_pairs_within_the_budget(tmp_path):
    versions = ["0.9 0.0 0.03", "1.3 0.0 0.03", "0.92 0.9 0.03", "1.3 0.0 0.03", "0.5 0.5 0.03"] * 2
    subject = write_two_faced(tmp_path / "subject", *versions, root="0.3 0.3 0.1")
    settings = {"budget.steps": 10, "budget.rollouts": 350, "holdout.surprises": 50}
    asked_twice = queries = 0
    for seed in range(3):
        run = await play(subject, tmp_path / "runs", seed, **settings)
        assert not run.summary["deterministic"]
        assert run.summary["budget"]["rollouts"]["used"] <= 350
        queries = 0
        for body in await bodies_of(run):
            cited = [one for one in body["rollouts"] if "/holdout/" in one["key"]]
            assert len({one["key"] for one in cited}) == len(cited) == 2 * len({one["seed"] for one in cited})
            evidence = body["decision"]["evidence"]
            asked = [one for one in (evidence.get("holdout"), evidence.get("title", {}).get("holdout")) if one]
            assert len(cited) == 4 * len(asked)
            asked_twice += len(asked) == 2
            queries += len(asked)
        assert run.summary["holdout"]["queries"] == queries
        assert (await replay(run.folder)).tickets == len(await bodies_of(run))
    assert asked_twice


@pytest.mark.parametrize("workers", [1, 3])
async def test_an_interrupted_contest_ends_as_an_uninterrupted_one(tmp_path, workers):
    versions = [SOUND, PERFECT_LIE, FALSE, "0.95 0.95 0", "0.5 0.5 0", "0.97 0.97 0", "0.2 0.2 0"]
    subject = write_two_faced(tmp_path / "subject", *versions)
    settings = {"budget.steps": len(versions), "schedule.workers": workers, "archive.mode": "capped", "archive.size": 3}
    whole = await play(subject, tmp_path / "runs", **settings)
    assert any(body["decision"]["evidence"].get("title", {}).get("taken") for body in await bodies_of(whole))
    for stop in range(1, len(versions) - workers):
        part = await play(subject, tmp_path / "runs", stop_after=stop, **settings)
        rest = await play(part.folder, None, resume=True)
        assert rest.summary["ledger_head"] == whole.summary["ledger_head"]
    assert (await replay(whole.folder)).tickets == len(versions)


@pytest.mark.parametrize("seed", range(6))
async def test_without_a_holdout_the_best_is_whoever_was_run_to_the_end_and_leads(tmp_path, seed):
    settings = {"budget.steps": 20, "stages.plan": [{"tasks": 6, "threshold": 0.9}, {"tasks": 0}]}
    run = await play(write_ladder(tmp_path / "ladder"), tmp_path / "runs", seed, **settings)
    means, taken = {"v0": Share(6, 14).mean}, 0
    for body in await bodies_of(run):
        change = body["archive"]
        for member in (*change.get("again", ()), *filter(None, [change.get("member")])):
            if member.get("stage") == 2:
                means[member["id"]] = Share(member.get("wins", 0), member.get("losses", 0)).mean
        assert means[body["incumbent"]] == max(means.values())
        taken += body["decision"]["evidence"].get("title", {}).get("taken", False)
    assert run.summary["incumbent"]["metric"] == max(means.values())
    assert taken or seed not in (0, 1, 2)


async def test_a_metric_that_is_minimised_keeps_its_scale_and_its_direction(tmp_path):
    subject = write_two_faced(tmp_path / "subject", SOUND, BETTER, "0.2 0.2 0")
    text = (subject / "strop.toml").read_text().replace("TwoFaced", "Faults")
    text = text.replace('metric = "solved"', 'metric = "faults"').replace('direction = "max"', 'direction = "min"')
    (subject / "strop.toml").write_text(text.replace("range = [0.0, 1.0]", "range = [0.0, 2.0]"))
    run = await play(subject, tmp_path / "runs", **{"budget.steps": 3})
    first, second, _ = await bodies_of(run)
    root, best = run.summary["root"], run.summary["incumbent"]
    assert root["metric"] == pytest.approx(2 - 2 * Share(6, 14).mean)
    assert root["interval"] == pytest.approx(sorted(2 - 2 * end for end in Share(6, 14).interval()))
    assert best == {"id": "v2", "metric": pytest.approx(2 - 2 * Share(20, 0).mean), "interval": best["interval"]}
    assert first["score"] == first["decision"]["evidence"]["stages"]["mean"] < root["metric"]
    assert second["decision"]["evidence"]["screen"]["gain"] == pytest.approx(root["metric"] - best["metric"])
    assert second["decision"]["evidence"]["holdout"] == {"asked": True, "passed": True, "score": 0.0}


async def test_a_gain_below_the_smallest_effect_is_none(tmp_path):
    run, (_, second) = await play_versions(tmp_path, SOUND, "1.0 1.0 0", **{"gate.min_effect": 0.65})
    assert second["decision"]["verdict"] == "archived"
    assert second["decision"]["evidence"]["screen"]["needed"] == 0.65
    assert (run.summary["incumbent"]["id"], run.summary["holdout"]["queries"]) == ("v0", 0)


DRIVER = """
import pathlib, sys
import anyio
from harness import open_run, resume_run

async def main(mode, where, runs, versions):
    settings = {"budget.steps": int(versions), "budget.rollouts": 5000}
    if mode == "resume":
        opened = resume_run(where)
    else:
        opened = open_run(where, seed=1, overrides=settings, runs=pathlib.Path(runs), run_id="killed")
    async with opened as run:
        async for _ in run.events:
            pass
    print(run.summary["ledger_head"])

anyio.run(main, *sys.argv[1:])
"""


async def test_kill_9_in_every_stage_of_a_contest_changes_nothing(tmp_path):
    versions = [SOUND, PERFECT_LIE, "0.5 0.5 0"]
    subject = write_two_faced(tmp_path / "subject", *versions)
    whole = await play(subject, tmp_path / "runs", **{"budget.steps": len(versions)})
    keys = [key for body in await bodies_of(whole) for key in (one["key"] for one in body["rollouts"])]
    # the first ticket's checks and tasks, the promotion's last task, both queries of the holdout, and what is between
    assert sum("/holdout/" in key for key in keys) == 2
    ran = len(keys) + 3  # and the root's
    places = ["proposal-stored:1", "rollout-ran:5", "decided:1", "proposal-stored:1", "rollout-stored:20"]
    places += ["rollout-ran:1", "rollout-stored:1", "decided:1", "committed:1", "stopped:1"]
    killed, mode, where = 0, "open", str(subject)
    while True:
        place = places[killed] if killed < len(places) else ""
        command = [sys.executable, "-P", "-c", DRIVER, mode, where, str(tmp_path / "runs"), str(len(versions))]
        environment = {**os.environ, "STROP_FAILPOINT": place, "PYTHONPATH": str(Path(__file__).parents[1])}
        done = await anyio.run_process(command, env=environment, check=False)
        mode, where = "resume", str(tmp_path / "runs" / "killed")
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        killed += 1
    assert killed >= 8
    assert done.stdout.decode().strip() == whole.summary["ledger_head"]
    archive = await SqliteArchive.view(tmp_path / "runs" / "killed")
    counts = await archive.rollout_counts()
    await archive.aclose()
    assert counts.finished == ran
    assert (await replay(tmp_path / "runs" / "killed")).tickets == len(versions)
