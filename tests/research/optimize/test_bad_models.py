"""A model that goes bad in the middle of an optimizer's run, behind real HTTP: the run stops and can go on, or goes on
and says what it could not use; no budget is burnt for nothing, and no score is made up."""

import hashlib
import importlib.util
import re
from shutil import copytree
from typing import ClassVar

import pytest

from harness import open_run, resume_run
from harness.archive.sqlite import SqliteArchive
from harness.cli.ending import rows
from harness.errors import ModelError
from harness.optimizer.base import Done
from harness.report.html import render
from harness.report.view import load
from harness.resources import resource
from harness.testing.scripted_model import ScriptedModel

KEY = "sk-very-secret-0123456789"
CONFIG = {
    "gepa": {"minibatch": 2, "iterations": 3},
    "textgrad": {"steps": 2, "minibatch": 2},
    "ape": {"proposals": 24, "ucb_rounds": 2, "arms": 3, "samples": 2, "rounds": 0},
    "gepa-package": {"reflection_minibatch_size": 2, "max_metric_calls": 24, "skip_perfect_score": False},
}
pytestmark = pytest.mark.filterwarnings("default")


def agents(*names):
    missing = pytest.mark.skipif(importlib.util.find_spec("gepa") is None, reason="strop[gepa] is not installed")
    return [pytest.param(name, marks=missing if name == "gepa-package" else ()) for name in names]


def proposing(body):
    text = "\n".join(str(message["content"]) for message in body["messages"])
    return "<section" in text or "I provided an assistant" in text


class Sums:
    """Solves a sum if it is easy enough for what the prompt says; proposes better advice each time."""

    def __init__(self):
        self.asked = 0

    def __call__(self, body):
        text = "\n".join(str(message["content"]) for message in body["messages"])
        if proposing(body):
            digest = hashlib.sha256(text.encode()).hexdigest()[:6]
            return f"```\nWork step by step, as in {digest}.\n\n{{question}}\n```"
        asked = re.search(r"(\d[\d +-]*) =", body["messages"][-1]["content"]).group(1)
        hard = int(hashlib.sha256(asked.encode()).hexdigest(), 16) % 10
        value = sum(int(term.replace(" ", "")) for term in re.findall(r"-? ?\d+", asked))
        return f"The answer is {value if hard < (10 if 'step by step' in text else 4) else value + 1}."


class Turns:
    """Proposing call n is served as `first` says, later ones as `then` does; the program's calls always well, unless
    the whole server goes down with them."""

    def __init__(self, first, then="ok", *, down=False):
        self.first, self.then, self.calls, self.down = list(first), then, 0, down

    def __call__(self, body):
        if not proposing(body):
            return self.then if self.down and self.calls > len(self.first) else "ok"
        self.calls += 1
        return self.first[self.calls - 1] if self.calls <= len(self.first) else self.then


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("UPSTREAM_KEY", KEY)


@pytest.fixture
def subject(tmp_path):
    folder = copytree(resource("archives") / "prompts", tmp_path / "prompts")
    for path in (folder / "data").rglob("*.jsonl"):
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:4]))
    file = folder / "strop.toml"  # a rollout takes boxes: the fewer the quicker
    file.write_text(re.sub(r"holdout = .*\nvault = .*", "allow_missing = true", file.read_text()))
    return folder


def settings(served, agent, **more):
    return {
        "models.default.base_url": served.url,
        "models.default.api_key_env": "UPSTREAM_KEY",
        "models.default.patience_s": 0.3,
        "box.backend": "embedded",
        "budget.rollouts": 60,
        "budget.steps": 1,
        "agent.name": agent,
        "agent.config": {"per_ticket": 12, "finalists": 1, **CONFIG[agent]},
        **more,
    }


async def play(opened):
    async with opened as run:
        async for _ in run.events:
            pass
    return run


def fresh(subject, runs, served, agent, **more):
    return open_run(subject, workers=2, overrides=settings(served, agent, **more), runs=runs, run_id="r")


async def kept(folder):
    archive = await SqliteArchive.view(folder)
    try:
        return await archive.rollouts(), await archive.journal().calls()
    finally:
        await archive.aclose()


def same(summary, expected):
    assert summary["state"] == expected["state"] == "finished"
    assert summary["ledger_head"] == expected["ledger_head"]
    assert summary["budget"]["rollouts"]["used"] == expected["budget"]["rollouts"]["used"]


async def stops_and_goes_on(subject, tmp_path, agent, modes, match, again=True, **more):
    """It stops with an error that says what the upstream said, burns nothing meanwhile, and ends as if nothing was."""
    async with ScriptedModel(Sums(), modes=modes) as served:
        with pytest.raises(ModelError, match=match) as caught:
            await play(fresh(subject, tmp_path / "bad", served, agent, **more))
        assert KEY not in str(caught.value)
        stored, calls = await kept(tmp_path / "bad" / "r")
        assert all(outcome.score is not None for _, _, outcome in stored if outcome is not None)
        assert not any(KEY.encode() in call.reply.body for call in calls if call.reply is not None)
        asked, served.mode_of = modes.calls, None
        run = await play(resume_run(tmp_path / "bad" / "r"))
        assert run.summary["state"] == "finished"
        if again:
            same(run.summary, (await play(fresh(subject, tmp_path / "whole", served, agent, **more))).summary)
    return asked, str(caught.value)


@pytest.mark.parametrize("agent", agents("gepa", "textgrad", "gepa-package"))
async def test_500s_in_the_middle_stop_the_run_and_it_goes_on(subject, tmp_path, agent):
    modes = Turns(["ok"], "500", down=True)
    await stops_and_goes_on(subject, tmp_path, agent, modes, "HTTP 500: scripted 500, for")


@pytest.mark.parametrize("agent", agents("textgrad", "gepa-package"))
async def test_500s_that_pass_are_waited_out(subject, tmp_path, agent):
    patient = {"models.default.patience_s": 30.0}
    async with ScriptedModel(Sums(), modes=Turns(["ok", "500"])) as served:
        run = await play(fresh(subject, tmp_path / "bad", served, agent, **patient))
        same(run.summary, (await play(fresh(subject, tmp_path / "whole", served, agent, **patient))).summary)


@pytest.mark.parametrize("agent", agents("gepa", "textgrad", "gepa-package"))
async def test_a_reply_without_end_stops_the_run_and_it_goes_on(subject, tmp_path, agent):
    modes, short = Turns(["ok"], "endless", down=True), {"models.default.total_s": 0.5}
    told = "no whole answer within 0.5 s, for"
    await stops_and_goes_on(subject, tmp_path, agent, modes, told, **short)


@pytest.mark.parametrize("agent", agents("gepa", "textgrad", "gepa-package"))
async def test_a_first_call_that_is_refused_stops_the_run_at_once_and_says_why(subject, tmp_path, agent):
    modes, told = Turns([], "echo"), r"HTTP 400: no such key: Bearer \[key\]"
    asked, _ = await stops_and_goes_on(subject, tmp_path, agent, modes, told)
    assert asked == 1


@pytest.mark.parametrize("agent", agents("gepa", "textgrad", "gepa-package"))
@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("long", "HTTP 400: scripted long"),
        ("echo", "HTTP 400: no such key: Bearer [key]"),
        ("huge", "HTTP 502: the answer is longer than 64 MB"),
        ("blank", "an empty reply"),
        ("length", "cut off at its length limit"),
    ],
)
async def test_one_bad_reply_is_told_and_the_run_goes_on(subject, tmp_path, agent, mode, why):
    async with ScriptedModel(Sums(), modes=Turns(["ok", mode])) as served:
        run = await play(fresh(subject, tmp_path / "runs", served, agent))
    assert run.summary["state"] == "finished"
    assert run.summary["roles"]["proposes"]["unusable"].get(why) == 1
    assert f"1 {why}" in dict(rows(run.summary))["proposes"]
    page = render(await load(run.folder))
    assert why in page
    assert KEY not in page
    used = run.summary["budget"]["rollouts"]
    assert used["used"] <= used["limit"]
    assert (run.summary["incumbent"]["metric"] == 1.0) == (run.summary["counts"]["kept"] == 1)


@pytest.mark.parametrize("agent", agents("gepa", "ape", "gepa-package"))
@pytest.mark.parametrize(
    ("mode", "told", "mend"),
    [
        ("long", "20 replies in a row .* HTTP 400: scripted long", "strop resume"),
        ("blank", "20 replies in a row .* an empty reply", "strop doctor --model default"),
        ("length", "20 replies in a row .* cut off", r"agent\.config\.max_tokens \(2048 now\)"),
    ],
)
async def test_a_model_with_nothing_to_say_ends_the_run_before_its_budget(subject, tmp_path, agent, mode, told, mend):
    modes = Turns(["ok"], mode)
    most = {"agent.config.iterations": 300} if agent == "gepa" else {}
    more = {"agent.config.max_metric_calls": 400} if agent == "gepa-package" else {}
    asked, said = await stops_and_goes_on(subject, tmp_path, agent, modes, told, again=False, **most, **more)
    assert 21 <= asked <= 32
    assert re.search(mend, said)


@pytest.mark.parametrize("agent", agents("gepa", "textgrad", "gepa-package"))
async def test_a_megabyte_is_no_prompt(subject, tmp_path, agent):
    good = Sums()

    def script(body):
        return "```\n{question} " + "very " * 200_000 + "\n```" if proposing(body) and body["seed"] % 2 else good(body)

    async with ScriptedModel(script, modes=()) as served:
        run = await play(fresh(subject, tmp_path / "runs", served, agent, **{"agent.config.max_tokens": 1_000_000}))
    assert run.summary["state"] == "finished"
    stored, _ = await kept(run.folder)
    assert all(outcome.score is not None for _, _, outcome in stored if outcome is not None)


async def test_a_model_that_refuses_the_root_is_quoted(subject, tmp_path):
    async with ScriptedModel(Sums(), modes=lambda body: "echo") as served:
        with pytest.raises(ModelError, match=r"HTTP 400: no such key: Bearer \[key\]"):
            await play(fresh(subject, tmp_path / "runs", served, "gepa"))


class Spy:
    """An optimizer that looks at what its host tells it."""

    name = "spy"
    seen: ClassVar = []

    def check(self, config):
        pass

    async def start(self, host, config):
        texts = {slot.name: slot.text for slot in host.slots}
        self.seen += [host.remaining(), await host.evaluate(texts, host.examples("train"), "spy"), host.remaining()]
        return {"n": 0, "texts": texts}

    async def step(self, host, state):
        return Done(state, "seen", self.nominees(state))

    def nominees(self, state):
        return (state["texts"],)


async def test_an_optimizer_is_told_tokens_and_what_is_left_of_them(subject, tmp_path):
    Spy.seen.clear()
    limits = {"budget.tokens_in": 100_000, "budget.tokens_out": 50_000, "budget.requests": 900, "agent.config": {}}
    async with ScriptedModel(Sums()) as served:
        config = settings(served, "gepa", **limits, **{"agent.name": f"optimizer:{__name__}:Spy"})
        run = await play(open_run(subject, workers=2, overrides=config, runs=tmp_path / "runs"))
    before, results, after = Spy.seen
    assert all(result.usage.tokens_in > 10 < 40 > result.usage.tokens_out >= 4 for result in results)
    assert (before.completions - after.completions, before.rollouts - after.rollouts) == (2, 2)
    assert before.tokens - after.tokens == sum(result.usage.tokens_out for result in results)
    assert after.usd is None
    assert run.summary["state"] == "finished"
