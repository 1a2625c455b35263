"""A search that spends its model budget leaves the vault what it takes, whatever kind of run it is."""

import json
import os
import signal
import sys

import anyio
import pytest
from optimizer.hosts.test_runs import model as solver
from optimizer.hosts.test_runs import small  # noqa: F401 - a fixture
from research.test_models import CALLING, DRIVER
from research.test_run import bodies
from support.toy import make_toy

from harness import open_run, resume_run, summarize
from harness.errors import BudgetError
from harness.events import RunStopped
from harness.research.verify import verify
from harness.testing.scripted_model import ScriptedModel

PRICE = {"input": 1000, "output": 1000}
LIMITS = {"requests": 20, "tokens_in": 330, "tokens_out": 80, "usd": 0.4}


def improver(body):
    """The program's answers as `solver` gives them; whoever asks for a better prompt gets one."""
    text = str(body["messages"][-1]["content"])
    return "Work step by step.\n\n{question}" if "<section" in text or "<ask" in text else solver(body)


def chosen(model, **more):
    models = {"base_url": model.url, "patience_s": 3, "max_output_tokens": 20, "price": PRICE}
    return {"agent.name": "search", "box.backend": "embedded", "budget.steps": 60, "models.m": models, **more}


async def play(opening):
    async with opening as run:
        events = [event async for event in run.events]
    return events, run


def ended(events, run):
    """The reason that the search ended for, once the vault is open."""
    assert run.summary["state"] == "finished"
    for who in ("root", "best"):
        assert run.summary["vault"][who]["metric"] is not None
    return next(event for event in events if isinstance(event, RunStopped))


@pytest.mark.parametrize(
    ("kind", "mode"), [*((kind, "incumbent") for kind in sorted(LIMITS)), ("requests", "keep_all")]
)
async def test_each_limit_leaves_the_vault_its_share(tmp_path, kind, mode):
    subject, more = make_toy(tmp_path / "toy", train=CALLING), {f"budget.{kind}": LIMITS[kind], "archive.mode": mode}
    async with ScriptedModel("7", keep=False) as model:
        events, run = await play(open_run(subject, workers=2, overrides=chosen(model, **more), runs=tmp_path / "runs"))
    stop = ended(events, run)
    assert stop.reason == "models"
    assert f"budget {kind}:" in stop.detail
    assert "kept for the vault" in stop.detail
    used = run.summary["budget"][kind]["used"]
    served = model.served
    assert 0 < used <= LIMITS[kind]
    counts = {"requests": served.requests, "tokens_in": served.tokens_in, "tokens_out": served.tokens_out}
    assert counts.get(kind, 0) <= used
    assert run.summary["steps"]["done"] >= 1  # and the search had its part
    assert await verify(run.folder) is not None


@pytest.mark.parametrize("name", ["gepa", "opro"])
async def test_an_optimizer_leaves_what_its_nominees_and_the_vault_take(small, tmp_path, name):  # noqa: F811
    more = {
        "agent.name": name,
        "agent.config": {"finalists": 1},
        "budget.requests": 130,
        "gate.pairs": 2,
        "holdout.pairs": 1,
    }
    async with ScriptedModel(improver) as model:
        events, run = await play(open_run(small, overrides=chosen(model, **more), runs=tmp_path / "runs"))
    ended(events, run)
    assert model.served.requests == run.summary["budget"]["requests"]["used"] <= 130
    assert "the budget is spent" in run.summary["optimizer"]["reason"]
    assert run.summary["counts"]["kept"] == 1  # what it nominated was decided, with what was left for that
    assert run.summary["models"]["optimizer"]["requests"] > 0


async def test_an_optimizer_whose_first_step_does_not_fit_still_ends_with_a_vault(small, tmp_path):  # noqa: F811
    more = {"agent.name": "gepa", "agent.config": {}, "budget.requests": 45, "budget.vault_share": 0.0}
    async with ScriptedModel(improver) as model:
        events, run = await play(open_run(small, overrides=chosen(model, **more), runs=tmp_path / "runs"))
    assert ended(events, run).reason == "models"
    assert model.served.requests == 24 + 8  # the root, and the root again on the vault
    assert run.summary["vault"]["best"]["id"] == "v0"


async def test_a_chat_proposer_leaves_the_vault_of_calling_evals_its_share(tmp_path):
    def says(body):
        said = body["messages"][-1]["content"]
        if not said.startswith("add to"):
            return "train.py\n<<<<<<< SEARCH\nVALUE = 20\n=======\nVALUE = 60\n>>>>>>> REPLACE\n"
        return "7"

    more = {"agent.name": "chat", "budget.requests": 16}
    async with ScriptedModel(says, keep=False) as model:
        subject = make_toy(tmp_path / "toy", train=CALLING)
        events, run = await play(open_run(subject, workers=1, overrides=chosen(model, **more), runs=tmp_path / "runs"))
    ended(events, run)
    assert model.served.requests == run.summary["budget"]["requests"]["used"] <= 16
    assert run.summary["vault"]["best"]["id"] == "v1"


async def test_kills_in_search_and_vault_leave_the_vault_its_share(tmp_path):
    places = ["call-answered:9", "stopped:1", "call-answered:1"]
    subject, runs = make_toy(tmp_path / "toy", train=CALLING), tmp_path / "runs"
    async with ScriptedModel("7", keep=False) as model:
        settings = json.dumps(chosen(model, **{"budget.requests": 20, "budget.tokens_out": 150}))
        words = [sys.executable, "-c", DRIVER]
        start, resume = ["start", str(subject), settings, str(runs)], ["resume", str(runs / "r")]
        for number, place in enumerate([*places, ""]):
            done = await anyio.run_process(
                [*words, *(resume if number else start)], env={**os.environ, "STROP_FAILPOINT": place}, check=False
            )
            assert done.returncode == (-signal.SIGKILL if place else 0), done.stderr
            assert model.served.requests <= 20
            assert model.served.tokens_out <= 150
    summary = await summarize(runs / "r")
    assert summary["state"] == "finished"
    assert summary["vault"]["best"]["metric"] is not None
    assert [body["reason"] for kind, body in await bodies(runs / "r") if kind == "stop"] == ["models"]


async def test_a_vault_that_does_not_fit_is_said_and_the_run_can_be_resumed(tmp_path):
    subject, runs = make_toy(tmp_path / "toy", train=CALLING), tmp_path / "runs"
    async with ScriptedModel("7", keep=False) as model:
        more = chosen(model, **{"budget.requests": 3})
        for opening in (open_run(subject, overrides=more, runs=runs, run_id="r"), resume_run(runs / "r")):
            with pytest.raises(BudgetError, match="the vault is not open yet: budget requests: 3 of 3 used, 1 more"):
                await play(opening)
            summary = await summarize(runs / "r")
            assert (summary["state"], summary["vault"]) == ("interrupted", None)
    assert model.served.requests == 3


GREEDY = CALLING.replace("add to {VALUE}", "add to {VALUE}{'x' * (50_000 * (VALUE == 33))}")


async def test_one_huge_request_of_a_candidate_ends_its_rollout_and_not_the_run(tmp_path):
    subject = make_toy(tmp_path / "toy", train=GREEDY)
    script = ["value 33", "value 50"]
    async with ScriptedModel("7", keep=False) as model:
        more = {"agent.name": "support.agents:Scripted", "agent.config": {"script": script}, "budget.steps": 2}
        settings = chosen(model, **more, **{"budget.tokens_in": 20_000})
        events, run = await play(open_run(subject, workers=1, overrides=settings, runs=tmp_path / "runs"))
    assert ended(events, run).reason == "steps"
    assert run.summary["counts"]["crashed"] == 1
    assert run.summary["counts"]["kept"] == 1


SILENT = CALLING.replace("said = json.load(", "try:\n    said = json.load(").replace(
    '["content"]\n', '["content"]\nexcept OSError:\n    said = "0"\n'
)


async def test_a_refusal_that_an_eval_hides_is_no_measurement(tmp_path):
    subject = make_toy(tmp_path / "toy", train=SILENT)
    async with ScriptedModel("7", keep=False) as model:
        events, run = await play(
            open_run(subject, overrides=chosen(model, **{"budget.requests": 12}), runs=tmp_path / "runs")
        )
    assert ended(events, run).reason == "models"
    for who in ("root", "best"):  # with the 7 that the model says, not the 0 of one that was refused
        assert run.summary["vault"][who]["metric"] == pytest.approx(
            run.summary["root" if who == "root" else "incumbent"]["metric"], abs=0.02
        )
