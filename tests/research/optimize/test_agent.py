"""An optimizer as the agent of a run, in the simulated prompt world: one budget, one ledger, exact resume."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest
from optimizer.worlds import SMALL

from harness import open_run
from harness.archive.sqlite import SqliteArchive
from harness.cli.ending import rows
from harness.errors import BudgetError, InputError, MissingEnvironmentError
from harness.events import Notice, RootMeasured, RunStarted, RunStopped, TicketDecided
from harness.optimizer.base import Example, Given, Slot
from harness.optimizer.registry import BUILT_IN, make_optimizer
from harness.records import RolloutKey, Split
from harness.report.html import render
from harness.report.view import load
from harness.research.optimize.host import cut
from harness.research.verify import verify
from harness.resources import resource
from harness.testing.prompt_host import SimulatedHost

WORLD = resource("archives") / "prompt-world"
QUICK = {
    "budget.rollouts": 180,
    "budget.steps": 4,
    "gate.pairs": 2,
    "holdout.pairs": 1,
    "agent.config": {"per_ticket": 60, "finalists": 2},
}
KILLED = {**QUICK, "budget.rollouts": 320}
DRIVER = """
import json, pathlib, sys
import anyio
from harness import open_run, resume_run

async def main(mode, where, runs, overrides):
    opened = resume_run(where) if mode == "resume" else open_run(
        where, seed=3, workers=4, overrides=json.loads(overrides), runs=pathlib.Path(runs), run_id="r")
    async with opened as run:
        async for _ in run.events:
            pass
    print(json.dumps(dict(run.summary)))

anyio.run(main, *sys.argv[1:])
"""


async def play(runs, *, workers=4, seed=3, **settings):
    overrides = {**QUICK, **settings}
    async with open_run(WORLD, seed=seed, workers=workers, overrides=overrides, runs=runs, run_id="r") as run:
        events = [event async for event in run.events]
    return events, run


async def rows_of(folder):
    archive = await SqliteArchive.view(folder)
    try:
        return await archive.ledger(), await archive.rollouts()
    finally:
        await archive.aclose()


async def test_a_run_of_an_optimizer_verifies_and_stays_in_its_budget(tmp_path):
    events, run = await play(tmp_path)
    decided = [event for event in events if isinstance(event, TicketDecided)]
    assert decided
    assert decided[0].note.startswith("gepa: leads after step")
    used = run.summary["budget"]["rollouts"]
    assert used["used"] <= used["limit"] == 180
    ledger, rollouts = await rows_of(run.folder)
    cited = [one["key"] for row in ledger if row.body for one in row.body.get("rollouts", [])]
    assert sorted(cited) == sorted(str(key) for key, _, outcome in rollouts if outcome is not None)
    assert any(key.example for key, _, _ in rollouts)
    assert await verify(run.folder) is not None
    assert "simulation" in run.summary["isolation"]


async def test_no_optimizer_sees_holdout_or_vault(tmp_path):
    _, run = await play(tmp_path)
    _, rollouts = await rows_of(run.folder)
    tried: list[RolloutKey] = [key for key, _, _ in rollouts if key.example]
    assert {key.split for key in tried} == {Split.VISIBLE}
    assert all(key.example.startswith(("train/", "val/")) for key in tried)


async def test_how_many_rollouts_run_at_once_changes_nothing(tmp_path):
    heads = [(await play(tmp_path / str(n), workers=n))[1] for n in (1, 8)]
    decisions = [
        [row.body["decision"] for row in (await rows_of(run.folder))[0] if row.kind == "ticket"] for run in heads
    ]
    assert decisions[0] == decisions[1]


@pytest.mark.parametrize("name", sorted(BUILT_IN))
async def test_every_optimizer_runs_as_an_agent(tmp_path, name):
    small = {
        "apo": {"beam_width": 2, "branch_factor": 1, "val_batch_size": 8},
        "bootstrap": {"sets": 3},
        "mipro": {"minibatch": 10, "trials": 6},
        "protegi": {"minibatch": 10, "samples": 2},
    }
    config = {"per_ticket": 60, "finalists": 1, **small.get(name, {})}
    settings = {"agent.name": name, "agent.config": config, "budget.rollouts": 240, "budget.steps": 2}
    events, run = await play(tmp_path, **settings)
    assert any(isinstance(event, TicketDecided) for event in events)
    assert run.summary["budget"]["rollouts"]["used"] <= 240


def session(mode, where, runs, place=""):
    environment = {**os.environ, "STROP_FAILPOINT": place}
    words = [sys.executable, "-P", "-c", DRIVER, mode, str(where), str(runs), json.dumps(KILLED)]
    return subprocess.run(words, capture_output=True, text=True, env=environment, timeout=120, check=False)


async def test_killed_anywhere_it_ends_like_the_uninterrupted_run(tmp_path):
    whole = session("open", WORLD, tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    runs = tmp_path / "killed"
    folder = runs / "r"
    places = [
        "rollout-stored:40",
        "optimizer-stepped:1",
        "rollout-begun:9",
        "optimizer-stepped:5",
        "proposed:1",
        "proposal-stored:1",
        "committed:1",
        "optimizer-stepped:1",
        "rollout-ran:2",
    ]
    for number, place in enumerate(places):
        done = session("resume" if number else "open", folder if number else WORLD, runs, place)
        assert done.returncode != 0, (place, done.stdout)
    end = session("resume", folder, runs)
    assert end.returncode == 0, end.stderr
    summary, expected = (json.loads(text.strip().splitlines()[-1]) for text in (end.stdout, whole.stdout))
    assert summary["ledger_head"] == expected["ledger_head"]
    assert summary["budget"]["rollouts"]["used"] == expected["budget"]["rollouts"]["used"]
    for told in ("optimizer", "roles", "reason"):
        assert summary[told] == expected[told]
    assert summary["roles"]["proposes"]["replies"] > 0


@pytest.mark.parametrize(
    ("config", "rollouts", "why"),
    [
        ({"iterations": 2}, 400, "all 2 iterations are done"),
        ({}, 120, "the budget is spent: its next step takes"),
        ({"patience": 1, "full_score": -1.0}, 400, "1 proposals in a row brought nothing new"),
    ],
)
async def test_why_an_optimizer_stopped_is_told_everywhere(tmp_path, config, rollouts, why):
    quick = {"budget.rollouts": rollouts, "budget.steps": 9, "agent.config": {"per_ticket": 400, **config}}
    events, run = await play(tmp_path, **quick)
    stopped = next(event for event in events if isinstance(event, RunStopped))
    assert stopped.reason == "exhausted"
    assert why in stopped.detail
    assert why in run.summary["reason"]
    assert why in run.summary["optimizer"]["reason"]
    assert why in dict(rows(run.summary))["optimizer"]
    view = await load(run.folder)
    assert why in view.tickets[-1].note
    page = render(view)
    assert f"done: {why}" in page
    roles = {"proposes": "simulated", "evaluates": "simulated", "serves": "simulated"}
    assert next(event for event in events if isinstance(event, RunStarted)).roles == roles
    assert "<dt>proposes</dt><dd>simulated: " in page
    assert dict(rows(run.summary))["serves"] == "simulated: not asked"


def test_train_and_val_are_apart_seeded_and_never_empty():
    examples = [Example(str(n)) for n in range(9)]
    parts = cut(examples, 0, 0.5)
    ids = {part: {one.id for one in found} for part, found in parts.items()}
    assert ids["train"] | ids["val"] == {one.id for one in examples}
    assert not ids["train"] & ids["val"]
    assert all(one.part == part for part, found in parts.items() for one in found)
    assert cut(examples, 0, 0.5) == parts != cut(examples, 1, 0.5)
    for share in (0.001, 0.999):
        assert all(cut(examples[:2], 0, share).values())


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"agent.name": "gepa", "agent.config": {"nonsense": 1}}, "nonsense"),
        ({"agent.name": "optimizer:nobody"}, "nobody"),
        ({"agent.config": {"train_share": 2}}, "train_share"),
        ({"agent.config": {"judge": ["tone"]}}, "agent.config.judge"),
        ({"agent.name": "textgrad", "agent.config": {"frozen": ["solv"]}}, "no slot is called 'solv'"),
        ({"agent.name": "ace", "agent.config": {"slot": "nope"}}, "no slot is called 'nope'"),
        ({"agent.name": "agentlightning", "agent.config": {}}, "agentlightning package"),
        ({"agent.name": "gepa", "agent.config": {"minibatch": 200}}, "first step of gepa, which takes"),
        ({"agent.name": "apo", "agent.config": {"most_rollouts": 20}}, "agent.config.most_rollouts"),
    ],
)
async def test_what_makes_no_sense_is_said_before_anything_is_written(tmp_path, settings, word):
    with pytest.raises((InputError, MissingEnvironmentError), match=word):
        await play(tmp_path, **settings)
    assert not (Path(tmp_path) / "r").exists()


@pytest.mark.parametrize(("rollouts", "told"), [(150, True), (400, False)])
async def test_a_budget_that_a_noisy_root_would_pass_is_said_before_the_root_is_run(tmp_path, rollouts, told):
    """The world is noisy: 4 runs of root, 2 repeats of root and best on the vault, 3 nominees of 1 + 2 x 2 + 2 x 1."""
    settings = {"agent.name": "textgrad", "agent.config": {"minibatch": 60}, "budget.rollouts": rollouts}
    if told:
        settings["agent.config"] = {"minibatch": 30, "finalists": 15}
    events, _ = await play(tmp_path, **settings)
    said = [
        event.text
        for event in events[: events.index(next(e for e in events if isinstance(e, RootMeasured)))]
        if isinstance(event, Notice)
    ]
    assert bool(said) == told
    if told:
        assert f"take {4 + 1 + 4 + 15 * 7 + 60}" in said[0]
        assert "gate.pairs = 2" in said[0]


@pytest.mark.parametrize("name", sorted(BUILT_IN))
async def test_what_an_optimizer_needs_lets_it_try_something(name):
    """It starts within that, and goes on to run something; most finish their first step."""
    optimizer, whole = make_optimizer(name), SimulatedHost()
    needed = optimizer.needs(Given(whole.slots, len(whole.train), len(whole.val)), SMALL[name])
    host = SimulatedHost(rollouts=needed)
    state = await optimizer.start(host, SMALL[name])
    started = host.used()
    try:
        await optimizer.step(host, state)
    except BudgetError:
        assert name in {"ape", "bootstrap", "opro", "protegi"}
    assert started < host.used() <= needed


async def test_the_package_of_mipro_is_asked_for_before_the_run(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingEnvironmentError, match=r"strop\[optimizers\]"):
        await play(tmp_path, **{"agent.name": "mipro", "agent.config": {"minibatch": 5}})
    assert not (tmp_path / "r").exists()
    assert make_optimizer("mipro").needs(Given((Slot("solve", "x"),), 4, 4), {"sampler": "random"}) == 8


async def test_a_subject_without_single_examples_is_no_subject_for_an_optimizer(tmp_path):
    digits = resource("archives") / "digits"
    with pytest.raises(InputError, match=r"examples\.jsonl"):
        async with open_run(digits, overrides={"agent.name": "gepa"}, runs=tmp_path):
            pass


@pytest.mark.parametrize(
    ("slot", "word"),
    [
        ('required = ["kind"]\nengine = "braces"', "drops the placeholder 'kind'"),
        ("max_chars = 4", "characters, more than 4"),
        ('engine = "jinja"\nrequired = ["kind"]', "drops the placeholder"),
    ],
)
async def test_a_seed_that_breaks_its_own_rules_is_said_before_anything_is_written(tmp_path, slot, word):
    folder = copytree(WORLD, tmp_path / "world")
    file = folder / "strop.toml"
    text = re.sub(r'(\[slots\.parse\]\nfile = "[^"]+")', rf"\1\n{slot}", file.read_text(), count=1)
    assert text != file.read_text()
    file.write_text(text)
    with pytest.raises(InputError, match=word) as caught:
        async with open_run(folder, overrides=QUICK, runs=tmp_path / "runs"):
            pass
    assert caught.value.key == "slots.parse"
    assert not (tmp_path / "runs").exists()
