from collections import Counter

import pytest

import harness
from harness.archive.sqlite import SqliteArchive
from harness.research.evidence.posterior import Share, chance_of
from harness.research.replay import replay
from harness.research.verify import verify
from harness.testing.ladder import write_ladder


async def play(subject, runs, seed=1, *, steps=20, resume=False, stop_after=None, **overrides):
    overrides = {"budget.steps": steps, "budget.rollouts": 5000, **overrides}
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


async def test_variants_climb_stop_early_and_are_compared_by_their_posterior(tmp_path):
    run = await play(write_ladder(tmp_path / "ladder"), tmp_path / "runs")
    bodies = await bodies_of(run)
    stages = [body["decision"]["evidence"]["stages"] for body in bodies if "stages" in body["decision"]["evidence"]]
    assert {one["stage"] for one in stages} >= {1, 3}
    assert any(one["stopped"] for one in stages) or any(one["run"] in (4, 12) for one in stages)
    for body in bodies:
        told = body["decision"]["evidence"].get("stages")
        if told is None:
            continue
        share = Share(told["solved"], told["run"] - told["solved"])
        assert body["score"] == pytest.approx(share.mean)
        assert told["interval"][0] < share.mean < told["interval"][1]
        if body["decision"]["verdict"] == "kept":
            assert told["stage"] == 3
    assert run.summary["incumbent"]["metric"] > run.summary["root"]["metric"]
    assert (await verify(run.folder)).tickets == 20


async def test_no_task_of_a_variant_is_paid_for_twice(tmp_path):
    run = await play(write_ladder(tmp_path / "ladder"), tmp_path / "runs")
    keys = [cited["key"] for body in await bodies_of(run) for cited in body["rollouts"]]
    assert len(keys) == len(set(keys))
    assert run.summary["lost_rollouts"] == 0
    assert run.summary["budget"]["rollouts"]["used"] >= len(keys)


async def test_a_parent_that_is_drawn_again_is_promoted(tmp_path):
    run = await play(write_ladder(tmp_path / "ladder"), tmp_path / "runs", 3)
    bodies = await bodies_of(run)
    before = {}
    promotions = 0
    for body in bodies:
        for again in body["archive"].get("again", ()):
            promotions += 1
            assert again["stage"] == before[again["id"]] + 1
            assert again["id"] == body["parent"]
            before[again["id"]] = again["stage"]
        if "member" in body["archive"]:
            before[body["archive"]["member"]["id"]] = body["archive"]["member"].get("stage", 0)
    assert promotions > 0


async def test_hypotheses_are_checked_against_what_happened(tmp_path):
    run = await play(write_ladder(tmp_path / "ladder"), tmp_path / "runs")
    made = [body["archive"]["hypothesis"] for body in await bodies_of(run) if "hypothesis" in body["archive"]]
    assert {one["held"] for one in made} >= {True, False}
    assert all(one["claim"] and one["solves"] for one in made)


async def test_broken_variants_are_recorded_and_never_parents(tmp_path):
    subject = write_ladder(tmp_path / "ladder", start=0.1)
    run = await play(subject, tmp_path / "runs", 2, steps=20, **{"select.rule": "uniform"})
    bodies = await bodies_of(run)
    dead = {b["variant"]["id"]: b for b in bodies if b["variant"] and b["proposal"]["note"].startswith("skill -")}
    assert dead
    for body in dead.values():
        assert body["decision"]["verdict"] == "crashed"
        assert "member" not in body["archive"]
    assert not set(dead) & {body["parent"] for body in bodies}


@pytest.mark.parametrize("workers", [1, 3])
async def test_an_interrupted_archive_ends_as_an_uninterrupted_one(tmp_path, workers):
    settings = {"steps": 9, "schedule.workers": workers, "stages.repeats": 2}
    subject = write_ladder(tmp_path / "ladder", noise=0.1)
    whole = await play(subject, tmp_path / "runs", 7, **settings)
    part = await play(subject, tmp_path / "runs", 7, stop_after=4, **settings)
    assert part.summary["state"] == "interrupted"
    rest = await play(part.folder, None, resume=True)
    assert rest.summary["ledger_head"] == whole.summary["ledger_head"]
    assert (await verify(rest.folder)).tickets == 9
    assert (await replay(rest.folder)).tickets == 9


@pytest.mark.parametrize("rule", ["pareto", "hgm"])
async def test_rules_that_read_tasks_run_on_partial_tables(tmp_path, rule):
    subject = write_ladder(tmp_path / "ladder")
    run = await play(subject, tmp_path / "runs", steps=8, **{"select.rule": rule})
    assert run.summary["counts"]["archived"] + run.summary["counts"].get("kept", 0) > 2


async def test_budgets_hold_over_stages(tmp_path):
    run = await play(write_ladder(tmp_path / "ladder"), tmp_path / "runs", steps=500, **{"budget.rollouts": 150})
    assert run.summary["stop"]["reason"] == "rollouts"
    assert run.summary["budget"]["rollouts"]["used"] <= 150


async def test_a_twin_in_flight_leaves_no_trace_of_having_been_run(tmp_path):
    settings = {"steps": 9, "schedule.workers": 3, "agent.name": "support.agents:Twins"}
    run = await play(write_ladder(tmp_path / "ladder"), tmp_path / "runs", 2, **settings)
    bodies = await bodies_of(run)
    twins = [body for body in bodies if body["decision"]["verdict"] == "duplicate"]
    assert len(twins) == 6
    assert all("hypothesis" not in body["archive"] and not body["rollouts"] for body in twins)
    assert all("hypothesis" in body["archive"] for body in bodies if body not in twins)
    assert (await replay(run.folder)).tickets == 9


async def test_hgm_measures_while_there_is_little_evidence_and_expands_then(tmp_path):
    plan = [{"tasks": 1, "threshold": 1.0}] * 6 + [{"tasks": 4}]
    settings = {"steps": 20, "select.rule": "hgm", "schedule.workers": 2, "stages.plan": plan, "stages.doubt": 0.0}
    run = await play(write_ladder(tmp_path / "ladder"), tmp_path / "runs", 4, **settings)
    bodies = await bodies_of(run)
    measured = []
    for body in bodies:
        seen = max(0, body["ticket"] - 2)
        known = {"v0": 20.0}
        for earlier in bodies[:seen]:
            change = earlier["archive"]
            for member in (*change.get("again", ()), *filter(None, [change.get("member")])):
                known[member["id"]] = member.get("wins", 0) + member.get("losses", 0)
        expands = round(sum(known.values())) ** 0.6 >= len(known) - 1 + (body["ticket"] - 1 - seen)
        again = body["archive"].get("again", ())
        assert not (expands and again)
        measured += [(one["id"], body["parent"]) for one in again]
    assert any(whom != parent for whom, parent in measured)
    assert (await verify(run.folder)).tickets == 20
    assert (await replay(run.folder)).tickets == 20


async def test_code_that_was_judged_before_is_not_run_again_whoever_its_parent_is(tmp_path):
    subject = write_ladder(tmp_path / "ladder")
    text = (subject / "strop.toml").read_text()
    (subject / "strop.toml").write_text(text.replace('["skill.txt"]', '["skill.txt", "notes.py"]'))
    (subject / "notes.py").write_text("NOTE = 0\n")
    versions = ["NOTE = 1\n", "NOTE = 2\n", "# another layout\nNOTE  =  1\n"]
    settings = {"steps": 3, "schedule.workers": 1, "agent.name": "support.agents:Versions", "select.rule": "greedy"}
    settings |= {"agent.config.path": "notes.py", "agent.config.versions": versions}
    run = await play(subject, tmp_path / "runs", **settings)
    first, second, third = await bodies_of(run)
    assert (first["parent"], second["parent"], third["parent"]) == ("v0", "v1", "v2")
    assert third["decision"]["verdict"] == "duplicate"
    assert third["decision"]["reason"] == "the same code as v1 but for comments and layout"
    archive = await SqliteArchive.view(run.folder)
    ran = {key.tree for key, _, _ in await archive.rollouts()}
    await archive.aclose()
    assert first["proposal"]["tree"] in ran
    assert third["proposal"]["tree"] not in ran


async def test_a_stage_ends_when_its_threshold_is_out_of_reach_and_not_before(tmp_path):
    plan = [{"tasks": 20, "threshold": 0.9}]
    shown = {}
    for doubt in (0.0, 0.05, 0.5):
        settings = {"steps": 1, "schedule.workers": 1, "stages.plan": plan, "stages.doubt": doubt}
        run = await play(write_ladder(tmp_path / f"ladder-{doubt}"), tmp_path / "runs", 5, **settings)
        (body,) = await bodies_of(run)
        shown[doubt] = body["decision"]["evidence"]["stages"]
    assert (shown[0.0]["run"], shown[0.0]["stopped"], shown[0.0]["stage"]) == (20, "", 1)
    assert shown[0.5]["run"] <= shown[0.05]["run"] < 20
    told = shown[0.05]
    failed = told["run"] - told["solved"]
    assert chance_of(18 - told["solved"], 20 - told["run"], Share(told["solved"], failed)) < 0.05
    assert chance_of(18 - told["solved"], 21 - told["run"], Share(told["solved"], failed - 1)) >= 0.05
    assert told["stopped"] == f"stage 1 stopped early after {told['run']} tasks"


@pytest.mark.parametrize("chosen", ["mean", "lower", "upper"])
async def test_parents_are_drawn_by_the_chosen_statistic(tmp_path, chosen):
    settings = {"steps": 14, "select.rule": "greedy", "select.statistic": chosen, "stages.promote": False}
    run = await play(write_ladder(tmp_path / "ladder"), tmp_path / "runs", 2, **{**settings, "schedule.workers": 1})
    shares = {"v0": Share(6, 14)}
    parents = []
    for body in await bodies_of(run):
        value = {name: getattr(Values(share), chosen) for name, share in shares.items()}
        best = max(value.values())
        assert value[body["parent"]] == pytest.approx(best)
        parents.append(body["parent"])
        member = body["archive"].get("member")
        if member is not None:
            shares[member["id"]] = Share(member.get("wins", 0), member.get("losses", 0))
            assert member["score"] == pytest.approx(getattr(Values(shares[member["id"]]), chosen))
    assert len(set(parents)) > 1


class Values:
    def __init__(self, share):
        self.mean = share.mean
        self.lower, self.upper = share.interval()


async def test_only_tasks_on_which_the_root_disagrees_with_itself_are_run_again(tmp_path):
    subject = write_ladder(tmp_path / "ladder", noise=0.05)
    settings = {"steps": 3, "stages.unstable": 3, "stages.doubt": 0.0, "stages.plan": [{"tasks": 0}]}
    run = await play(subject, tmp_path / "runs", 3, **settings)
    archive = await SqliteArchive.view(run.folder)
    root = next(row.body for row in await archive.ledger() if row.kind == "root")
    rollouts = await archive.rollouts()
    await archive.aclose()
    runs = [outcome.items for key, _, outcome in rollouts if key.purpose == "root"]
    shaky = {name for name in runs[0] if len({items[name] for items in runs}) > 1}
    assert len(runs) == 4
    assert shaky
    assert set(root["tasks"]["unstable"]) == shaky
    for body in await bodies_of(run):
        if "member" in body["archive"]:
            times = Counter(one["key"].split("/", 5)[5] for one in body["rollouts"] if "/visible-" in one["key"])
            assert times == {name: 3 if name in shaky else 1 for name in runs[0]}
    assert run.summary["budget"]["rollouts"]["used"] <= 5000
    assert (await replay(run.folder)).tickets == 3


@pytest.mark.parametrize("workers", [1, 2])
async def test_what_is_too_like_a_sibling_is_not_run(tmp_path, workers):
    subject = write_ladder(tmp_path / "ladder")
    text = (subject / "strop.toml").read_text()
    (subject / "strop.toml").write_text(text.replace('["skill.txt"]', '["skill.txt", "notes.py"]'))
    (subject / "notes.py").write_text("A = 0\n")
    names = [f"NAME_{n} = {n}" for n in range(40)]
    versions = ["\n".join(names), "B = 1\n", "\n".join([*names[:-1], "OTHER = 40"])]
    settings = {"steps": 3, "schedule.workers": workers, "agent.name": "support.agents:Versions"}
    settings |= {"agent.config.path": "notes.py", "agent.config.versions": versions, "select.rule": "best_only"}
    settings |= {"select.statistic": "lower"}
    run = await play(subject, tmp_path / "runs", **{"archive.novelty": 0.8, **settings})
    bodies = await bodies_of(run)
    assert [body["parent"] for body in bodies] == ["v0", "v0", "v0"]
    assert [body["decision"]["verdict"] for body in bodies] == ["archived", "archived", "duplicate"]
    assert bodies[2]["decision"]["reason"].startswith("too like v1: 0.9")
    assert not bodies[2]["rollouts"]
    assert (await replay(run.folder)).tickets == 3
