"""A model that goes away, or a budget that ends, under an agent in a box: no step is burnt, no request is made up."""

from contextlib import AsyncExitStack

import anyio
import pytest
from research.test_run import bodies
from support.toy import make_toy

from harness import open_run, resume_run, summarize
from harness.cli.ending import rows
from harness.errors import ModelError
from harness.events import ModelAwaited, RunStopped
from harness.research import outage
from harness.testing.scripted_model import ScriptedModel

# asks twice, and like coding CLIs gives up by itself on no answer, without having changed anything
AGENT = """
import json, os, sys, urllib.request
said = []
for question in ("plan", "edit"):
    body = {"model": "m", "messages": [{"role": "user", "content": question}], "max_tokens": 8}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
        {"content-type": "application/json"})
    said.append(json.loads(urllib.request.urlopen(request, timeout=1.5).read())["choices"][0]["message"]["content"])
text = open("train.py").read()
value = text.split("VALUE = ")[1].split()[0]
open("train.py", "w").write(text.replace(f"VALUE = {value}", f"VALUE = {int(value) + 1}"))
"""


def settings(url, **more):
    return {
        "agent.name": "command",
        "agent.config": {"argv": ["python", "-c", AGENT], "deadline_s": 60},
        "box.backend": "embedded",
        "budget.steps": 3,
        "models.m": {"base_url": url, "patience_s": 60, "first_byte_s": 5, "connect_s": 2},
        **more,
    }


async def play(opening):
    async with opening as run:
        async for _ in run.events:
            pass
    return run


async def tickets(folder):
    return [body for kind, body in await bodies(folder) if kind == "ticket"]


async def test_a_budget_that_ends_under_an_agent_in_a_box_burns_no_step(tmp_path):
    async with ScriptedModel("go on") as model:
        more = settings(model.url, **{"budget.requests": 3})
        async with open_run(make_toy(tmp_path / "toy"), workers=1, overrides=more, runs=tmp_path / "runs") as run:
            events = [event async for event in run.events]
    (stopped,) = [event for event in events if isinstance(event, RunStopped)]
    assert stopped.reason == "models"
    assert "requests" in stopped.detail
    assert model.served.requests == 3
    assert [body["proposal"]["status"] for body in await tickets(run.folder)] == ["proposed"]
    assert run.summary["state"] == "finished"


async def gone_and_back(tmp_path, **more):
    """A run whose model goes away before the second ticket's second question, and is there again after that was told.
    (events, run, requests that both servers counted)."""
    gone, heard, told, served = anyio.Event(), anyio.Event(), [], []

    def script(body):
        if len(model.served.bodies) >= 3:
            gone.set()
        return "go on"

    async def away():
        await gone.wait()
        await model.__aexit__(None, None, None)
        served.append(model.served)
        await heard.wait()
        await anyio.sleep(2)  # by now its client has given up, and a later one asks
        again = ScriptedModel("go on", port=int(model.root.rpartition(":")[2]))
        await again.__aenter__()
        served.append(again.served)
        stack.push_async_exit(again)

    model = ScriptedModel(script)
    await model.__aenter__()
    async with AsyncExitStack() as stack, anyio.create_task_group() as group:
        group.start_soon(away)
        opening = open_run(
            make_toy(tmp_path / "toy"), workers=1, overrides=settings(model.url, **more), runs=tmp_path / "runs"
        )
        try:
            async with opening as run:
                async for event in run.events:
                    told.append(event)
                    if isinstance(event, ModelAwaited) and event.reason:
                        heard.set()
                        summary = await summarize(run.folder)
                        assert "cannot connect" in summary["waiting"]["m"]["reason"]
                        assert any("for model m: cannot connect" in text for _, text in rows(summary))
        finally:
            group.cancel_scope.cancel()
    return told, run, sum(one.requests for one in served)


@pytest.fixture
def _quick(monkeypatch):
    monkeypatch.setattr(outage, "AT_FIRST_S", 0.2)
    monkeypatch.setattr(outage, "LOOK_S", 0.05)


@pytest.mark.usefixtures("_quick")
async def test_an_outage_is_waited_out_and_costs_no_step_and_no_request(tmp_path):
    told, run, served = await gone_and_back(tmp_path, **{"budget.steps": 2, "budget.requests": 8})
    assert [body["proposal"]["status"] for body in await tickets(run.folder)] == ["proposed"] * 2
    assert run.summary["models"]["proposer"]["requests"] == served <= 6
    waits = [event for event in told if isinstance(event, ModelAwaited)]
    assert waits[0].reason
    assert waits[0].patience_s == 60
    assert not waits[-1].reason
    assert "waiting" not in run.summary


@pytest.mark.usefixtures("_quick")
async def test_an_outage_that_lasts_stops_the_run_which_goes_on_later(tmp_path):
    patience = {"models.m": {**settings("")["models.m"], "patience_s": 3}}
    down, runs, counted = anyio.Event(), tmp_path / "runs", 0

    def script(body):
        if len(model.served.bodies) >= 3:
            down.set()
        return "go on"

    async def away():
        await down.wait()
        await model.__aexit__(None, None, None)

    model = ScriptedModel(script)
    await model.__aenter__()
    patience["models.m"]["base_url"] = model.url
    async with anyio.create_task_group() as group:
        group.start_soon(away)
        opening = open_run(
            make_toy(tmp_path / "toy"), overrides=settings("", **patience), workers=1, runs=runs, run_id="r"
        )
        with pytest.raises(ModelError, match=r"cannot connect.*, for 3 s"):
            await play(opening)
    counted = model.served.requests
    assert len(await tickets(runs / "r")) == 1
    async with ScriptedModel("go on", port=int(model.root.rpartition(":")[2])) as again:
        run = await play(resume_run(runs / "r"))
        counted += again.served.requests
    assert run.summary["state"] == "finished"
    assert [body["proposal"]["status"] for body in await tickets(run.folder)] == ["proposed"] * 3
    assert run.summary["models"]["proposer"]["requests"] == counted == 6
