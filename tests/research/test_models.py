"""Runs whose agent asks a model, end to end: the journal, the budget, an upstream that fails, a crash between."""

import os
import re
import signal
import subprocess
import sys

import pytest
from research.test_run import bodies, verdicts
from support.toy import make_toy

from harness import open_run, resume_run
from harness.archive.sqlite import SqliteArchive
from harness.errors import BudgetError, InputError, ModelError
from harness.events import RunStopped
from harness.testing.scripted_model import ScriptedModel

KEY = "sk-live-Zq3t7vB9xYw2LmN4pKr8sJd6"


def better(body):
    """The value a little nearer to 70, as a whole file; a function of the request alone."""
    said = body["messages"][1]["content"]
    value = int(re.search(r"^VALUE = (\d+)", said, re.MULTILINE)[1])
    ticket = int(re.search(r"This is proposal (\d+)", said)[1])
    new = min(value + 7 + ticket, 71)
    return f"Why: {ticket}\n\ntrain.py\n<<<<<<< SEARCH\nVALUE = {value}\n=======\nVALUE = {new}\n>>>>>>> REPLACE\n"


def settings(model, **more):
    return {
        "agent.name": "chat",
        "box.backend": "embedded",
        "budget.steps": 4,
        "models.m": {"base_url": model.url, "patience_s": 3, "first_byte_s": 5, "api_key_env": "TOY_KEY"},
        **more,
    }


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("TOY_KEY", KEY)


async def play(opening):
    async with opening as run:
        events = [event async for event in run.events]
    return events, run


async def test_a_chat_run_is_metered_as_the_server_counts_and_told_by_role(tmp_path):
    async with ScriptedModel(better) as model:
        events, run = await play(
            open_run(make_toy(tmp_path / "toy"), workers=2, overrides=settings(model), runs=tmp_path / "runs")
        )
    assert "kept" in verdicts(events)
    told = run.summary["models"]["proposer"]
    assert (told["requests"], told["tokens_in"], told["tokens_out"]) == (
        model.served.requests,
        model.served.tokens_in,
        model.served.tokens_out,
    )
    assert run.summary["budget"]["tokens_in"]["used"] == model.served.tokens_in
    assert set(model.served.keys) == {f"Bearer {KEY}"}


async def test_no_key_is_anywhere_in_a_run_folder(tmp_path):
    async with ScriptedModel(better) as model:
        _, run = await play(
            open_run(make_toy(tmp_path / "toy"), overrides=settings(model), runs=tmp_path / "runs", workers=1)
        )
    found = re.compile(rb"sk-[A-Za-z0-9_\-]{16,}|" + KEY.encode())
    files = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert any(path.name == "run.db" for path in files)
    assert [path for path in files if found.search(path.read_bytes())] == []
    archive = await SqliteArchive.view(run.folder)
    calls = await archive.journal().calls()
    await archive.aclose()
    assert len(calls) == 4
    assert not any(found.search(call.reply.body) for call in calls)


async def test_a_spent_budget_ends_the_run_and_opens_the_vault(tmp_path):
    async with ScriptedModel(better) as model:
        events, run = await play(
            open_run(
                make_toy(tmp_path / "toy"),
                overrides=settings(model, **{"budget.requests": 2, "budget.steps": 50}),
                runs=tmp_path / "runs",
                workers=1,
            )
        )
    assert model.served.requests == 2
    stopped = next(event for event in events if isinstance(event, RunStopped))
    assert stopped.reason == "models"
    assert "budget requests: 2 of 2 used" in stopped.detail
    assert run.summary["state"] == "finished"


async def test_an_upstream_that_is_down_burns_no_step_and_the_run_goes_on(tmp_path):
    subject, runs = make_toy(tmp_path / "toy"), tmp_path / "runs"
    async with ScriptedModel(better) as whole:
        _, run = await play(open_run(subject, workers=1, overrides=settings(whole), runs=runs / "a"))
        expected = await bodies(run.folder)
    async with ScriptedModel(better, modes=["ok", "ok", *["500"] * 99]) as model:
        with pytest.raises(ModelError, match="HTTP 500"):
            await play(open_run(subject, workers=1, overrides=settings(model), runs=runs / "b", run_id="down"))
        done = await bodies(runs / "b" / "down")
        model.modes.clear()
        events, run = await play(resume_run(runs / "b" / "down"))
        again = await bodies(runs / "b" / "down")
    assert [kind for kind, _ in done if kind == "ticket"] == ["ticket"] * 2
    assert run.summary["state"] == "finished"
    assert [body for kind, body in again if kind == "ticket"] == [body for kind, body in expected if kind == "ticket"]
    assert verdicts(events)


async def test_a_chat_agent_without_a_model_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="needs a model"):
        await play(open_run(make_toy(tmp_path / "toy"), overrides={"agent.name": "chat"}, runs=tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


async def test_a_key_that_is_not_set_is_said_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.delenv("TOY_KEY")
    async with ScriptedModel() as model:
        with pytest.raises(InputError, match="TOY_KEY is not set"):
            await play(open_run(make_toy(tmp_path / "toy"), overrides=settings(model), runs=tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


DRIVER = """
import sys, anyio
from pathlib import Path
from harness import open_run, resume_run
async def main():
    if sys.argv[1] == "resume":
        opening = resume_run(sys.argv[2])
    else:
        import json
        chosen = json.loads(sys.argv[3])
        opening = open_run(sys.argv[2], workers=1, overrides=chosen, runs=Path(sys.argv[4]), run_id="r")
    async with opening as run:
        async for event in run.events:
            pass
anyio.run(main)
"""


@pytest.mark.parametrize("place", ["call-begun:2", "call-answered:3", "call-stored:2"])
async def test_a_kill_at_a_call_pays_for_no_finished_one_twice(tmp_path, place):
    import json

    import anyio

    subject, runs = make_toy(tmp_path / "toy"), tmp_path / "runs"
    async with ScriptedModel(better) as model:
        words = [sys.executable, "-c", DRIVER]
        chosen = json.dumps(settings(model))
        killed = await anyio.run_process(
            [*words, "start", str(subject), chosen, str(runs)],
            env={**os.environ, "STROP_FAILPOINT": place},
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL
        await anyio.run_process([*words, "resume", str(runs / "r")], stderr=subprocess.STDOUT)
        archive = await SqliteArchive.view(runs / "r")
        calls = await archive.journal().calls()
        spent = (await archive.journal().spent())["proposer"]
        await archive.aclose()
    lost = 0 if place.startswith("call-stored") else 1
    assert len(calls) == 4
    assert all(call.reply is not None for call in calls)
    # begun and cut off before it was sent: nothing reached the server, and it still counts, since nobody can know
    assert model.served.requests == 4 + (place.startswith("call-answered"))
    assert spent.requests == 4 + lost
    assert spent.tokens_in >= model.served.tokens_in
    assert spent.tokens_out >= model.served.tokens_out


CALLING = """
from pathlib import Path
import json, os, urllib.request

VALUE = 20
body = json.dumps({"model": "m", "messages": [{"role": "user", "content": f"add to {VALUE}"}]}).encode()
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body)
said = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
ids = Path("/data/ids.txt").read_text().split()
Path("/out/predictions.csv").write_text("".join(f"{id},{VALUE + int(said)}\\n" for id in ids))
"""


async def test_an_evaluated_agents_calls_are_metered_by_role_and_variant(tmp_path):
    subject = make_toy(tmp_path / "toy", train=CALLING)
    async with ScriptedModel("7", keep=False) as model:
        chosen = {**settings(model), "agent.name": "search", "budget.steps": 2}
        events, run = await play(open_run(subject, workers=1, overrides=chosen, runs=tmp_path / "runs"))
    assert run.summary["root"]["metric"] == pytest.approx(0.43, abs=0.01)
    told = run.summary["models"]["task"]
    assert (told["requests"], told["tokens_out"]) == (model.served.requests, model.served.tokens_out)
    archive = await SqliteArchive.view(run.folder)
    calls = await archive.journal().calls()
    await archive.aclose()
    assert {call.variant.split("/")[1] for call in calls} >= {"root", "screen", "vault"}
    assert verdicts(events)


async def test_a_budget_that_ends_under_a_rollout_is_no_verdict_on_it(tmp_path):
    subject = make_toy(tmp_path / "toy", train=CALLING)
    async with ScriptedModel("7", keep=False) as model:
        chosen = {**settings(model), "agent.name": "search", "budget.requests": 3}
        with pytest.raises(BudgetError, match="budget requests"):
            await play(open_run(subject, workers=1, overrides=chosen, runs=tmp_path / "runs"))
    assert model.served.requests == 3
