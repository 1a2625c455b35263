"""The starter subject prompts: its data, its program, its scorer, and a run of it with a model behind real HTTP."""

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from shutil import copytree

import pytest

from harness import open_run
from harness.events import TicketDecided
from harness.policy.schema import SubjectFile
from harness.research.verify import verify
from harness.resources import resource
from harness.testing.scripted_model import ScriptedModel

PROMPTS = resource("archives") / "prompts"
SPLITS = {"visible": 80, "holdout": 80, "vault": 160}


def rows(split, part):
    name = "examples.jsonl" if part == "inputs" else "labels.jsonl"
    text = (PROMPTS / "data" / split / part / name).read_text()
    return [json.loads(row) for row in text.splitlines()]


def test_the_subject_file_is_valid():
    subject = SubjectFile.model_validate(tomllib.loads((PROMPTS / "strop.toml").read_text()))
    assert subject.slots["solve"].required == ("question",)
    assert "{question}" in (PROMPTS / subject.slots["solve"].file).read_text()


def test_no_question_is_in_two_places():
    questions = [row["question"] for split in SPLITS for row in rows(split, "inputs")]
    assert len(questions) == len(set(questions)) == sum(SPLITS.values())
    for split, size in SPLITS.items():
        assert [row["id"] for row in rows(split, "inputs")] == [row["id"] for row in rows(split, "labels")]
        assert len(rows(split, "inputs")) == size
        assert all("answer" not in row for row in rows(split, "inputs"))


def test_the_data_are_what_the_script_makes():
    pytest.importorskip("reasoning_gym")
    script = [sys.executable, "-B", str(PROMPTS / "make_data.py"), "--check"]
    assert subprocess.run(script, timeout=120, check=False).returncode == 0


def score(tmp_path, said):
    for name in ("out", "labels", "result"):
        (tmp_path / name).mkdir()
    (tmp_path / "labels/labels.jsonl").write_text('{"id": "a", "answer": "12"}\n')
    (tmp_path / "out/outputs.jsonl").write_text(said)
    folders = [word for name in ("labels", "out", "result") for word in (f"--{name}", str(tmp_path / name))]
    script = [sys.executable, str(PROMPTS / "score.py"), *folders]
    done = subprocess.run(script, timeout=60, check=False, capture_output=True)
    written = tmp_path / "result/result.json"
    return json.loads(written.read_text())["accuracy"] if done.returncode == 0 else None


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ('"12"', 1.0),
        ('"012"', 1.0),
        ('"13"', 0.0),
        ('""', 0.0),
        ("12", 0.0),
        ("null", 0.0),
        ('"12.0"', 0.0),
        ("[12]", 0.0),
    ],
)
def test_the_score_is_one_or_zero(tmp_path, output, expected):
    assert score(tmp_path, f'{{"id": "a", "output": {output}}}\n') == expected


@pytest.mark.parametrize("said", ["", '{"id": "b", "output": "12"}\n', '{"id": "a", "output": "12"}\n' * 2, "12\n"])
def test_missing_foreign_or_double_answers_are_no_score(tmp_path, said):
    assert score(tmp_path, said) is None


def model(body):
    """Solves a sum if it is easy enough for what the prompt says; as a proposer it adds advice."""
    text = "\n".join(str(message["content"]) for message in body["messages"])
    if "<section" in text:
        current = re.search(r'<section name="text">\n(.*?)\n</section>', text, re.DOTALL).group(1)
        return f"Sure! Here is the improved prompt:\n```\nWork step by step.\n{current}\n```"
    asked = re.search(r"problem: (.*?) =", body["messages"][-1]["content"]).group(1)
    hard = int(hashlib.sha256(asked.encode()).hexdigest(), 16) % 10
    value = sum(int(term.replace(" ", "")) for term in re.findall(r"-? ?\d+", asked))
    return f"The answer is {value if hard < (10 if 'step by step' in text else 4) else value + 1}."


@pytest.fixture
def small(tmp_path):
    """The subject with twelve questions a split."""
    folder = tmp_path / "prompts"
    copytree(PROMPTS, folder)
    for path in (folder / "data").rglob("*.jsonl"):
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:12]))
    return folder


async def test_an_optimizer_improves_it_through_the_gateway(small, tmp_path):
    async with ScriptedModel(model) as served:
        overrides = {
            "models.default.base_url": f"{served.url}/v1" if not served.url.endswith("/v1") else served.url,
            "box.backend": "embedded",
            "budget.rollouts": 34,
            "budget.steps": 2,
            "agent.config": {"per_ticket": 10, "finalists": 1, "minibatch": 3},
        }
        async with open_run(small, workers=2, overrides=overrides, runs=tmp_path / "runs") as run:
            events = [event async for event in run.events]
    decided = [event.decision.verdict.value for event in events if isinstance(event, TicketDecided)]
    assert "kept" in decided
    assert run.summary["vault"]["best"]["metric"] == 1.0 > run.summary["vault"]["root"]["metric"]
    assert run.summary["budget"]["rollouts"]["used"] <= 34
    assert set(run.summary["models"]) == {"task", "optimizer"}
    assert await verify(run.folder) is not None
