"""Decisions taken again, offline, agree; one that was tampered with is named."""

import sqlite3

import pytest
from research.test_models import better, settings
from support.toy import NOISY_TRAIN, make_toy

from harness import open_run
from harness.errors import IntegrityError
from harness.research.replay import replay
from harness.resources import resource
from harness.testing.scripted_model import ScriptedModel


async def played(subject, runs, overrides, workers=2):
    async with open_run(subject, workers=workers, overrides=overrides, runs=runs) as run:
        async for _ in run.events:
            pass
    return run.folder


async def test_a_search_run_is_taken_again(tmp_path):
    chosen = {"box.backend": "embedded", "budget.steps": 5}
    folder = await played(make_toy(tmp_path / "toy"), tmp_path / "runs", chosen)
    found = await replay(folder)
    assert (found.tickets, found.proposals, found.replies, found.vault) == (5, 5, 0, True)


async def test_a_noisy_run_is_taken_again_and_a_changed_score_is_found(tmp_path):
    chosen = {"box.backend": "embedded", "budget.steps": 4}
    folder = await played(make_toy(tmp_path / "toy", train=NOISY_TRAIN), tmp_path / "runs", chosen)
    assert (await replay(folder)).tickets == 4
    with sqlite3.connect(folder / "run.db") as database:
        database.execute("UPDATE rollouts SET score = score + 0.001 WHERE purpose = 'screen' AND status = 'ok'")
    database.close()
    with pytest.raises(IntegrityError, match=r"replay: ticket|a rollout of visible"):
        await replay(folder)


async def test_a_chat_run_is_taken_again_from_its_journal_without_a_model_or_a_key(tmp_path, monkeypatch):
    monkeypatch.setenv("TOY_KEY", "k")
    async with ScriptedModel(better) as model:
        folder = await played(make_toy(tmp_path / "toy"), tmp_path / "runs", settings(model))
    monkeypatch.delenv("TOY_KEY")
    found = await replay(folder)
    assert (found.tickets, found.proposals, found.replies) == (4, 4, model.served.requests)
    with sqlite3.connect(folder / "run.db") as database:
        database.execute("DELETE FROM calls WHERE ticket = 2")
    database.close()
    with pytest.raises(IntegrityError, match=r"model call \w+ of ticket 2"):
        await replay(folder)


async def test_what_an_agent_did_in_a_box_is_taken_as_recorded(tmp_path):
    chosen = {"box.backend": "embedded", "budget.steps": 2, "agent.name": "command"}
    chosen["agent.config"] = {"argv": ["sh", "-c", "sed -i 's/VALUE = .*/VALUE = 60/' train.py"]}
    folder = await played(make_toy(tmp_path / "toy"), tmp_path / "runs", chosen, workers=1)
    found = await replay(folder)
    assert (found.tickets, found.proposals) == (2, 0)


async def test_an_optimizers_run_is_taken_again_with_its_proposals_as_recorded(tmp_path):
    chosen = {"agent.name": "gepa", "budget.rollouts": 400}
    folder = await played(resource("archives") / "prompt-world", tmp_path / "runs", chosen)
    found = await replay(folder)
    assert found.tickets >= 1
    assert (found.proposals, found.vault) == (0, True)
