"""The starter subject tool-calls: functions and arguments scored apart, two modules, a run behind real HTTP."""

import json
import re
import runpy
import subprocess
import sys
from shutil import copytree

import pytest

from harness import open_run
from harness.archive.sqlite import SqliteArchive
from harness.cli.progress import PlainDisplay
from harness.errors import InputError
from harness.report.html import render
from harness.report.view import load
from harness.resources import resource
from harness.testing.scripted_model import ScriptedModel

CALLS = resource("archives") / "tool-calls"
score = runpy.run_path(str(CALLS / "score.py"))
program = runpy.run_path(str(CALLS / "program.py"))


def test_the_data_are_what_the_script_makes_and_no_request_is_in_two_places():
    assert subprocess.run([sys.executable, "-B", str(CALLS / "make_data.py"), "--check"], check=False).returncode == 0
    texts = [
        json.loads(row)["request"]
        for split in ("visible", "holdout", "vault")
        for row in (CALLS / "data" / split / "inputs/examples.jsonl").read_text().splitlines()
    ]
    assert len(texts) == len(set(texts)) == 176


LABEL = {"function": "quote_price", "arguments": {"item": "rope", "count": 3}}


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (LABEL, (1.0, 1.0)),
        ({"function": "quote_price", "arguments": {"item": "Rope ", "count": "3"}}, (1.0, 1.0)),
        ({"function": "quote_price", "arguments": {"item": "rope"}}, (1.0, 0.5)),
        ({"function": "quote_price", "arguments": {"item": "rope", "count": 3, "day": "Friday"}}, (1.0, 2 / 3)),
        ({"function": "place_order", "arguments": {"item": "rope", "count": 3}}, (0.0, 0.0)),
        ({"function": "quote_price", "arguments": [1]}, (1.0, 0.0)),
        ("quote_price", (0.0, 0.0)),
        (None, (0.0, 0.0)),
    ],
)
def test_function_and_arguments_are_scored_apart(output, expected):
    assert score["parts"](LABEL, output) == pytest.approx(expected)


def test_a_reply_is_read_for_the_last_function_and_the_last_object():
    assert program["chosen"]("not check_stock but quote_price.", ["check_stock", "quote_price"]) == "quote_price"
    assert program["chosen"]("nothing", ["check_stock"]) == ""
    assert program["arguments"]('so {"a": 1} then {"b": 2} {broken}') == {"b": 2}
    assert program["arguments"]("none") == {}


def model(body):
    """Chooses well once the prompt says how; extracts well always; judges for the label by position."""
    text = "\n".join(str(message["content"]) for message in body["messages"])
    if "Compare the two replies" in text:
        return "tone: A"
    if "<section" in text:
        current = re.search(r'<section name="text">\n(.*?)\n</section>', text, re.DOTALL).group(1)
        return f"Name one function only.\n{current}"
    if "Give the arguments" in text:
        found = re.search(r"(\d+) of the (\w+)", text)
        item = re.search(r"(?:a|the) (\w+) (?:left|sold)", text)
        day = re.search(r"(?:on) (\w+day)", text)
        pairs = {"count": int(found[1]), "item": found[2]} if found else {"item": item[1]} if item else {}
        return json.dumps({**pairs, **({"day": day[1]} if day else {})})
    request = text.rpartition("Request: ")[2]
    good = {"left": "check_stock", "sold out": "check_stock", "come to": "quote_price", "aside": "place_order"}
    best = next(
        (name for word, name in good.items() if word in request), "opening_hours" if "open" in request else "none"
    )
    return best if "one function only" in text else "check_stock"


@pytest.mark.parametrize("judge", [[], ["tone"]])
async def test_the_module_that_fails_is_mended_and_a_judge_gates_nothing(tmp_path, judge):
    folder = copytree(CALLS, tmp_path / "calls")
    for path in (folder / "data").rglob("*.jsonl"):
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:8]))
    async with ScriptedModel(model) as served:
        overrides = {
            "models.default.base_url": served.url,
            "box.backend": "embedded",
            "budget.rollouts": 30,
            "budget.steps": 1,
            "agent.config": {"per_ticket": 8, "finalists": 1, "minibatch": 3, "judge": judge},
        }
        async with open_run(folder, workers=2, overrides=overrides, runs=tmp_path / "runs") as run:
            async for _ in run.events:
                pass
    assert run.summary["counts"]["kept"] == 1
    assert run.summary["vault"]["best"]["metric"] > run.summary["vault"]["root"]["metric"]
    assert run.summary["vault"]["best"]["ci"] is not None
    archive = await SqliteArchive.view(run.folder)
    try:
        outcomes = [outcome for key, _, outcome in await archive.rollouts() if key.example]
    finally:
        await archive.aclose()
    assert all({name.partition(":")[2] for name in outcome.items} == {"function", "arguments"} for outcome in outcomes)


async def test_the_three_roles_have_a_model_each_and_are_metered_apart(tmp_path):
    folder = copytree(CALLS, tmp_path / "calls")
    for path in (folder / "data").rglob("*.jsonl"):
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:4]))
    heard = {"writer": [], "judge": [], "worker": []}

    def hearing(name):
        def answer(body):
            heard[name].append("\n".join(str(message["content"]) for message in body["messages"]))
            return model(body)

        return answer

    async with (
        ScriptedModel(hearing("writer")) as writer,
        ScriptedModel(hearing("judge")) as judge,
        ScriptedModel(hearing("worker")) as worker,
    ):
        overrides = {
            "models.writer.base_url": writer.url,
            "models.judge.base_url": judge.url,
            "models.worker.base_url": worker.url,
            "box.backend": "embedded",
            "budget.rollouts": 20,
            "budget.steps": 1,
            "agent.config": {
                "per_ticket": 4,
                "finalists": 1,
                "minibatch": 1,
                "judge": ["tone"],
                "proposes": "writer",
                "evaluates": "judge",
                "serves": "worker",
            },
        }
        async with open_run(folder, workers=2, overrides=overrides, runs=tmp_path / "runs") as run:
            events = [event async for event in run.events]
        wrong = {**overrides, "agent.config": {"proposes": "writer", "serves": "workre"}}
        with pytest.raises(InputError, match=r"agent\.config\.serves"):
            await open_run(folder, overrides=wrong, runs=tmp_path / "none").__aenter__()
    assert all("<section" in text and "Compare" not in text for text in heard["writer"])
    assert all("Compare the two replies" in text for text in heard["judge"])
    assert all("<section" not in text for text in heard["worker"])
    roles = run.summary["roles"]
    assert {name: roles[name]["model"] for name in roles} == {
        "proposes": "writer",
        "evaluates": "judge",
        "serves": "worker",
    }
    assert [roles[name]["requests"] for name in roles] == [len(heard[name]) for name in heard]
    lines = []
    told = PlainDisplay(lines.append)
    for event in events:
        told.take(event)
    assert "roles: proposes writer, evaluates judge, serves worker" in lines[0]
    asked = {name: f"{name} {its}: " for name, its in (("proposes", "writer"), ("serves", "worker"))}
    assert all(any(start in line for line in lines[1:]) for start in asked.values())
    page = render(await load(run.folder))
    for role, its in (("proposes", "writer"), ("evaluates", "judge"), ("serves", "worker")):
        assert f"<dt>{role}</dt><dd>{its}: {roles[role]['requests']} calls, " in page


async def test_a_mute_program_model_and_a_judge_without_verdicts_are_told(tmp_path):
    folder = copytree(CALLS, tmp_path / "calls")
    for path in (folder / "data").rglob("*.jsonl"):
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:4]))
    async with (
        ScriptedModel(model) as writer,
        ScriptedModel(lambda body: "Both are nice.") as judge,
        ScriptedModel(lambda body: "") as worker,
    ):
        overrides = {
            "models.default.base_url": writer.url,
            "models.judge.base_url": judge.url,
            "models.worker.base_url": worker.url,
            "box.backend": "embedded",
            "budget.rollouts": 16,
            "budget.steps": 1,
            "agent.config": {
                "per_ticket": 4,
                "finalists": 1,
                "minibatch": 1,
                "evaluates": "judge",
                "serves": "worker",
                "judge": ["tone"],
            },
        }
        async with open_run(folder, workers=2, overrides=overrides, runs=tmp_path / "runs") as run:
            async for _ in run.events:
                pass
    serves = run.summary["roles"]["serves"]
    assert serves["unusable"] == {"an empty reply": serves["requests"]}
    assert serves["requests"] > 0
    evaluates = run.summary["roles"]["evaluates"]
    assert evaluates["unusable"] == {"no verdict in it": evaluates["replies"]}
    page = render(await load(run.folder))
    assert f"({evaluates['replies']} no verdict in it)" in page
    assert f"({serves['requests']} an empty reply)" in page
