"""`strop resume --set`: budgets grow and nothing else changes, the ledger tells it, verify and replay agree."""

import json
import os
import signal
import sys

import anyio
import pytest
from research.test_models import CALLING, DRIVER, better
from research.test_models import settings as chat_settings
from research.test_run import bodies, verdicts
from research.test_share import chosen, play
from support.toy import make_toy

from harness import open_run, resume_run, summarize
from harness.archive.base import LedgerEntry
from harness.archive.sqlite import SqliteArchive
from harness.cli.ending import rows
from harness.errors import BudgetError, InputError, IntegrityError, ModelError
from harness.events import TicketDecided
from harness.report.html import render
from harness.report.view import load
from harness.research.cross_check import fold
from harness.research.replay import replay
from harness.research.verify import verify
from harness.testing.scripted_model import ScriptedModel


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("TOY_KEY", "sk-test-0123456789abcdefghij")


async def drained(opening, after):
    """A run that is stopped once ticket `after` is decided."""
    async with opening as run:
        async for event in run.events:
            if isinstance(event, TicketDecided) and event.decision.ticket == after:
                run.drain()
    assert run.summary["state"] == "interrupted"
    return run.folder


async def entries(folder):
    archive = await SqliteArchive.view(folder)
    try:
        return await archive.ledger()
    finally:
        await archive.aclose()


async def test_a_vault_that_did_not_fit_is_opened_once_the_budget_is_raised(tmp_path):
    subject, runs = make_toy(tmp_path / "toy", train=CALLING), tmp_path / "runs"
    async with ScriptedModel("7", keep=False) as model:
        settings = chosen(model, **{"budget.requests": 3})
        with pytest.raises(BudgetError, match="the vault is not open yet") as caught:
            await play(open_run(subject, overrides=settings, runs=runs, run_id="r"))
        assert "strop resume RUN --set budget.requests=N" in caught.value.mend
        _, run = await play(resume_run(runs / "r", overrides={"budget.requests": 4}))
        assert run.summary["state"] == "finished"
        assert run.summary["vault"]["best"]["metric"] is not None
        assert run.summary["budget"]["requests"] == {"used": 4, "limit": 4}
        with pytest.raises(InputError, match="is finished"):
            await play(resume_run(runs / "r", overrides={"budget.requests": 9}))
    assert model.served.requests == 4
    assert run.summary["raised"] == [{"kind": "requests", "from": 3, "to": 4, "after": 0}]
    assert ("raised", "requests raised from 3 to 4 after ticket 0") in rows(run.summary)
    assert "requests raised from 3 to 4 after ticket 0" in render(await load(run.folder))
    assert (await verify(run.folder)).tickets == 0
    assert (await replay(run.folder)).vault


async def test_a_search_goes_on_with_more_steps_as_if_it_had_had_them_from_the_start(tmp_path):
    subject, runs = make_toy(tmp_path / "toy"), tmp_path / "runs"
    settings = {"box.backend": "embedded", "budget.steps": 3}
    folder = await drained(open_run(subject, seed=3, workers=1, overrides=settings, runs=runs), after=2)
    before = await bodies(folder)
    # twice, and what it has already is no raise
    with pytest.raises(InputError, match=r"budget.steps: 2 is less than 3"):
        await play(resume_run(folder, overrides={"budget.steps": 2}))
    _, run = await play(resume_run(folder, overrides={"budget.steps": 5, "budget.rollouts": 1000}))
    assert [body for kind, body in await bodies(folder) if kind == "budget"] == [
        {"raised": {"steps": {"from": 3, "to": 5}}}
    ]
    assert (await bodies(folder))[: len(before)] == before
    assert run.summary["steps"] == {"done": 5, "limit": 5}
    whole = {**settings, "budget.steps": 5}
    _, other = await play(open_run(subject, seed=3, workers=1, overrides=whole, runs=tmp_path / "whole"))
    for kind in ("ticket", "vault"):
        found, expected = [[b for k, b in await bodies(one.folder) if k == kind] for one in (run, other)]
        assert found == expected
    assert (await replay(folder)).tickets == 5
    assert (await verify(folder)).tickets == 5


REFUSED = [
    ({"budget.steps": 2}, "budget.steps: 2 is less than 3"),
    ({"budget.requests": 9}, "budget.requests: has no limit"),
    ({"budget.vault_share": 0.5}, "budget.vault_share: a run that goes on keeps its policy"),
    ({"gate.alpha": 0.5}, "gate.alpha: a run that goes on keeps its policy"),
    ({"budget": {"steps": 9}}, "a run that goes on keeps its policy"),
    ({"budget.steps": "many"}, "budget.steps: must be a whole number"),
    ({"budget.wall_s": float("inf")}, "budget.wall_s"),
]


async def test_nothing_but_a_larger_budget_is_taken_and_nothing_is_written(tmp_path):
    subject = make_toy(tmp_path / "toy")
    settings = {"box.backend": "embedded", "budget.steps": 3}
    folder = await drained(open_run(subject, workers=1, overrides=settings, runs=tmp_path / "runs"), after=1)
    before = len(await entries(folder))
    for given, said in REFUSED:
        with pytest.raises(InputError, match=said):
            await play(resume_run(folder, overrides=given))
    assert len(await entries(folder)) == before


async def test_a_search_that_has_ended_gets_no_more_steps(tmp_path):
    subject, runs = make_toy(tmp_path / "toy", train=CALLING), tmp_path / "runs"
    async with ScriptedModel("7", keep=False) as model:
        with pytest.raises(BudgetError):
            await play(open_run(subject, overrides=chosen(model, **{"budget.requests": 3}), runs=runs, run_id="r"))
        with pytest.raises(InputError, match=r"budget.steps: the search has ended \(models\)"):
            await play(resume_run(runs / "r", overrides={"budget.steps": 99}))


async def test_a_row_that_raises_nothing_or_from_elsewhere_is_no_ledger(tmp_path):
    def row(change):
        return LedgerEntry(9, "budget", None, {"raised": {"steps": change}}, {}, "", "")

    settings = {"box.backend": "embedded", "budget.steps": 1}
    _, run = await play(open_run(make_toy(tmp_path / "toy"), workers=1, overrides=settings, runs=tmp_path / "runs"))
    whole = await entries(run.folder)
    for change in ({"from": 4, "to": 9}, {"from": 1, "to": 0}, {"from": 1, "to": 1}, {"from": 1, "to": "9"}, {}):
        with pytest.raises(IntegrityError, match="ledger 9"):
            fold([*whole, row(change)])
    with pytest.raises(IntegrityError, match="ledger 9"):  # a second one from where the first one began
        fold([*whole, row({"from": 1, "to": 4}), row({"from": 1, "to": 5})])
    fold([*whole, row({"from": 1, "to": 4}), row({"from": 4, "to": 5})])


async def test_resume_asks_models_first_and_writes_nothing_where_nobody_answers(tmp_path):
    subject, runs = make_toy(tmp_path / "toy"), tmp_path / "runs"
    async with ScriptedModel(better) as model:
        folder = await drained(open_run(subject, workers=1, overrides=chat_settings(model), runs=runs), after=1)
    before = len(await entries(folder))
    with pytest.raises(ModelError, match="cannot connect to") as caught:
        await play(resume_run(folder, overrides={"budget.steps": 9}))
    assert "start the server" in caught.value.mend
    assert len(await entries(folder)) == before
    assert (await summarize(folder))["state"] == "interrupted"


async def test_a_vault_that_asks_no_model_is_opened_without_one(tmp_path, monkeypatch):
    subject, runs = make_toy(tmp_path / "toy"), tmp_path / "runs"

    def broken(session):
        raise OSError("pulled the plug")

    async with ScriptedModel(better) as model:
        with monkeypatch.context() as patched:
            patched.setattr("harness.research.run.open_vault", broken)
            with pytest.raises(OSError, match="plug"):
                await play(open_run(subject, workers=1, overrides=chat_settings(model), runs=runs, run_id="r"))
    _, run = await play(resume_run(runs / "r"))
    assert run.summary["state"] == "finished"
    assert run.summary["vault"]["best"]["metric"] is not None


async def test_a_proposer_that_was_refused_is_asked_again_once_there_is_budget(tmp_path):
    """Killed between the refusal and its ticket: the refusal that was recorded is no answer any more."""
    subject, runs = make_toy(tmp_path / "toy"), tmp_path / "runs"
    async with ScriptedModel(better) as model:
        settings = json.dumps(chat_settings(model, **{"budget.requests": 1}))
        words = [sys.executable, "-c", DRIVER, "start", str(subject), settings, str(runs)]
        done = await anyio.run_process(words, env={**os.environ, "STROP_FAILPOINT": "refused:1"}, check=False)
        assert done.returncode == -signal.SIGKILL
        assert model.served.requests == 1
        events, _ = await play(resume_run(runs / "r", overrides={"budget.requests": 9}))
    assert model.served.requests == 4
    assert "no_proposal" not in verdicts(events)
    assert (await replay(runs / "r")).replies == 4
