from itertools import accumulate
from pathlib import Path

import pytest

import harness
from harness.archive.sqlite import SqliteArchive
from harness.records import Split
from harness.research.verify import verify
from harness.streams import stream
from harness.testing.hillside import Hillside, read, true_loss, write_hillside
from harness.testing.landscape import FEATURES, Landscape, score_of
from harness.tree import File, Tree

LANDSCAPE = Path(__file__).parents[2] / "archives" / "landscape"


async def play(subject, runs, seed, **overrides):
    async with harness.open_run(subject, seed=seed, runs=runs, overrides=overrides) as run:
        async for _ in run.events:
            pass
    return run


async def best(runs, seed, rule, steps=60):
    run = await play(LANDSCAPE, runs, seed, **{"select.rule": rule, "budget.steps": steps})
    return run.summary["incumbent"]["metric"]


def test_the_landscape_has_a_dip_and_a_summit():
    assert score_of(frozenset()) == 0.20
    assert score_of(frozenset({"editor", "retries", "tests"})) == 0.37
    assert score_of(frozenset({"viewer"})) < 0.20 > score_of(frozenset({"plan"}))
    assert score_of(frozenset(FEATURES)) == 0.85
    assert Landscape().rollout(Tree({"agent.txt": File(b"broken editor")}), Split.VISIBLE, 0).score is None


async def test_an_archive_crosses_the_dip_and_a_climber_does_not(tmp_path):
    assert await best(tmp_path, 1, "dgm") > 0.6
    assert await best(tmp_path, 1, "greedy", 20) <= 0.37
    assert await best(tmp_path, 1, "best_only", 20) <= 0.37


async def test_children_are_counted_as_the_ledger_tells_them(tmp_path):
    """Every draw of a run is taken again from the ledger alone, with child counts by plain counting."""
    run = await play(LANDSCAPE, tmp_path, 5, **{"budget.steps": 30, "schedule.workers": 3})
    archive = await SqliteArchive.view(run.folder)
    bodies = [entry.body for entry in await archive.tickets()]
    await archive.aclose()
    for body in bodies:
        seen = max(0, body["ticket"] - 3)
        members = [
            ("v0", 0.2),
            *((b["variant"]["id"], b["score"]) for b in bodies[:seen] if b["archive"].get("member")),
        ]
        parents = [b["parent"] for b in bodies[:seen] if b["archive"].get("member")]
        chances = harness.dgm_probabilities([score for _, score in members], [parents.count(m) for m, _ in members])
        point = stream(5, "select", body["ticket"]).random()
        reached = [name for (name, _), sum_ in zip(members, accumulate(chances), strict=True) if point < sum_]
        assert body["parent"] == reached[0]
    assert (await verify(run.folder)).tickets == 30


async def test_equal_seeds_and_workers_give_equal_heads(tmp_path):
    first = await play(LANDSCAPE, tmp_path, 9, **{"budget.steps": 20, "schedule.workers": 4})
    second = await play(LANDSCAPE, tmp_path, 9, **{"budget.steps": 20, "schedule.workers": 4})
    assert first.summary["ledger_head"] == second.summary["ledger_head"]
    assert first.summary["counts"]["archived"] > 5


async def test_a_simulated_run_says_so(tmp_path):
    run = await play(LANDSCAPE, tmp_path, 0, **{"budget.steps": 2})
    assert run.summary["mode"] == "simulation"
    assert "simulation" in run.summary["isolation"]


@pytest.mark.parametrize("rule", ["pareto", "hgm", "hyperagents", "uniform"])
async def test_every_rule_runs(tmp_path, rule):
    assert await best(tmp_path, 1, rule, 12) >= 0.2


async def test_keep_better_and_capped_archives(tmp_path):
    better = await play(
        LANDSCAPE, tmp_path, 3, **{"budget.steps": 40, "archive.mode": "keep_better", "archive.margin": 0}
    )
    assert better.summary["counts"]["discarded"] > 0
    capped = await play(LANDSCAPE, tmp_path, 3, **{"budget.steps": 40, "archive.mode": "capped", "archive.size": 5})
    archive = await SqliteArchive.view(capped.folder)
    inside, most = {"v0"}, 1
    for entry in await archive.tickets():
        assert entry.body["parent"] in inside | {"v0"} or entry.ticket < 3
        change = entry.body["archive"]
        inside |= {change["member"]["id"]} if "member" in change else set()
        inside -= set(change.get("gone", ()))
        most = max(most, len(inside))
        assert entry.body["incumbent"] in inside
    await archive.aclose()
    assert most == 5


async def test_a_locked_eval_stays_honest_and_an_open_one_does_not(tmp_path):
    on = await play(write_hillside(tmp_path / "on", guard=True), tmp_path / "runs", 1, **{"budget.steps": 25})
    off = await play(write_hillside(tmp_path / "off", guard=False), tmp_path / "runs", 1, **{"budget.steps": 25})
    assert on.summary["counts"]["blocked"] > 2
    assert "blocked" not in off.summary["counts"]
    assert on.summary["incumbent"]["metric"] >= 1.2 > off.summary["incumbent"]["metric"]


def test_the_reported_loss_is_what_the_eval_file_says():
    train = b"lr = 0.003\ndepth = 8\nwidth = 256\n"
    tree = Tree({"train.txt": File(train), "eval.txt": File(b"scale = 0.5\noffset = 0\n")})
    assert true_loss(tree) == 1.2
    assert Hillside().rollout(tree, Split.VISIBLE, 0).score == 0.6
    assert read(tree, "train.txt")["depth"] == 8
