import json

import anyio
import pytest
from support.toy import make_toy

import harness
from harness.archive.sqlite import SqliteArchive
from harness.resources import resource

LANDSCAPE = resource("archives") / "landscape"


async def finished(subject, runs, steps, script):
    overrides = {"budget.steps": steps, "agent.name": "support.agents:Scripted", "agent.config.script": script}
    async with harness.open_run(subject, seed=0, runs=runs, overrides=overrides) as run:
        async for _ in run.events:
            pass
    return run.folder.name


async def policy_of(folder):
    archive = await SqliteArchive.view(folder)
    try:
        return (await archive.ledger())[0].body["policy"]
    finally:
        await archive.aclose()


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    subject = make_toy(folder / "toy")
    names = [
        anyio.run(finished, subject, folder / "runs", steps, script)
        for steps, script in ((1, ["none"]), (2, ["value 70", "none"]))
    ]
    return folder / "runs", names


@pytest.mark.parametrize("split", ["vault", "holdout"])
def test_finished_runs_are_paired_example_by_example(strop, pair, split):
    runs, names = pair
    found = json.loads(strop("compare", *names, "--runs", runs, "--on", split, "--json").out)
    assert [row["run"] for row in found] == names
    assert found[1]["gain"] > 0.4
    told = strop("compare", *names, "--runs", runs, "--on", split).out
    assert "baseline" in told.splitlines()[0]
    assert "gain +0." in told.splitlines()[1]
    assert ("chosen with the holdout's help" in told) == (split == "holdout")


def test_controls_play_on_paired_seeds(strop, tmp_path):
    words = ["compare", LANDSCAPE, "--control", "none", "--control", "random-parent", "--seeds", "2", "--steps", "12"]
    found = json.loads(strop(*words, "--runs", tmp_path, "--json").out)
    assert [row["agent"] for row in found["agents"]] == ["none", "random_parent"]
    assert all(row["selected"] >= 0.2 for row in found["agents"])
    assert len(found["runs"]) == 4
    shown = strop(*words, "--runs", tmp_path).out
    assert "random_parent" in shown
    assert "no run opened a vault, so nothing here is proved" in shown


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["one"], "one name is no comparison"),
        (["one", "two", "--seeds", "3"], "goes with --agent or --control"),
        (["one", "two", "--box", "process"], "goes with --agent or --control"),
        (["one", "two", "--config", "x.toml"], "goes with --agent or --control"),
        ([LANDSCAPE, "--agent", "search", "--config", "no.toml"], "no.toml"),
        (["one", "two", "--agent", "gepa"], "name one subject"),
        ([LANDSCAPE, "--agent", "gepa", "--on", "holdout"], "agents are compared on the vault"),
        ([LANDSCAPE, "--control", "no-luck"], "is no control"),
        ([LANDSCAPE, "--control", "fixed-agent", "--seeds", "1"], "never edits itself"),
    ],
)
def test_what_cannot_be_compared_is_said(strop, words, told):
    said = strop("compare", *words)
    assert said.code == 2
    assert told in said.err


def test_a_control_without_an_archive_is_refused(strop, tmp_path):
    said = strop("run", make_toy(tmp_path / "toy"), "--control", "random-parent")
    assert said.code == 2
    assert "needs an archive of parents" in said.err


def test_an_experiment_file_is_for_all_and_options_win_over_it(strop, tmp_path):
    file = tmp_path / "all.toml"
    file.write_text("train_share = 0.4\n[budget]\nrollouts = 150\nsteps = 9\n[gate]\npairs = 2\n[holdout]\npairs = 1\n")
    agents = ["--agent", "textgrad,steps=1,minibatch=4", "--agent", "ace,steps=1,batch=4"]
    words = ["compare", resource("archives") / "prompt-world", *agents, "--seeds", "1", "--steps", "1"]
    words += ["--config", file, "--box", "process", "--runs", tmp_path / "runs", "--json"]
    found = json.loads(strop(*words).out)
    assert [row["agent"] for row in found["agents"]] == agents[1::2]
    for cell, config in zip(found["runs"], ({"steps": 1, "minibatch": 4}, {"steps": 1, "batch": 4}), strict=True):
        policy = anyio.run(policy_of, tmp_path / "runs" / cell["run"])
        assert {"train_share": 0.4, **config}.items() <= policy["agent"]["config"].items()
        assert (policy["budget"]["rollouts"], policy["budget"]["steps"]) == (150, 1)
        assert policy["box"]["backend"] == "process"
