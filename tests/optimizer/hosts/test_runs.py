"""Hosted packages as agents of a whole run: real boxes, the gateway over HTTP, a scripted model."""

import hashlib
import importlib.util
import json
import os
import re
import urllib.request
from importlib.util import find_spec
from shutil import copytree

import pytest

from harness import open_run
from harness.archive.sqlite import SqliteArchive
from harness.research.verify import verify
from harness.resources import resource
from harness.testing.scripted_model import ScriptedModel

pytestmark = pytest.mark.filterwarnings("default")
PACKAGES = {
    "dspy": ("dspy", {"num_candidates": 2, "num_trials": 2, "minibatch": False, "max_bootstrapped_demos": 1}),
    "agentlightning": ("agentlightning", {"beam_width": 1, "branch_factor": 1, "beam_rounds": 1, "val_batch_size": 4}),
    "textgrad-package": ("textgrad", {"steps": 2, "minibatch": 3}),
    "gepa-package": ("gepa", {"reflection_minibatch_size": 2}),
}


def model(body):
    """Solves a sum if it is easy enough for what the prompt says; as a proposer it adds advice in the asked format."""
    text = "\n".join(str(message["content"]) for message in body["messages"])
    fields = re.findall(r"`\[\[ ## (\w+) ## \]\]`", str(body["messages"][-1]["content"]))
    asked = re.search(r"problem: (.*?) =", str(body["messages"][-1]["content"]))
    if "<IMPROVED_VARIABLE>" in text:
        return "<IMPROVED_VARIABLE>Work step by step.</IMPROVED_VARIABLE>"
    if "rompt template" in text.lower():
        return "Work step by step."
    if "You will give feedback" in text:
        return "it should work step by step"
    if "[[ ## output ## ]]" not in text and fields:
        said = "Work step by step."
    elif "I provided an assistant" in text:
        return "```\nWork step by step.\n\n{question}\n```"
    elif asked is None:
        said = "nothing to say"
    else:
        hard = int(hashlib.sha256(asked[1].encode()).hexdigest(), 16) % 10
        value = sum(int(term.replace(" ", "")) for term in re.findall(r"-? ?\d+", asked[1]))
        said = str(value if hard < (10 if "step by step" in text else 4) else value + 1)
    named = [name for name in dict.fromkeys(fields) if name != "completed"]
    return "\n".join([*(f"[[ ## {name} ## ]]\n{said}\n" for name in named), "[[ ## completed ## ]]"]) if named else said


@pytest.fixture
def small(tmp_path):
    """The subject prompts with eight questions a split."""
    folder = copytree(resource("archives") / "prompts", tmp_path / "prompts")
    for path in (folder / "data").rglob("*.jsonl"):
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:8]))
    return folder


async def play(subject, tmp_path, agent, config, rollouts=40):
    async with ScriptedModel(model) as served:
        overrides = {
            "models.default.base_url": served.url,
            "box.backend": "embedded",
            "budget.rollouts": rollouts,
            "budget.steps": 1,
            "agent.name": agent,
            "agent.config": {"finalists": 1, **config},
        }
        async with open_run(subject, workers=2, overrides=overrides, runs=tmp_path / "runs") as run:
            async for _ in run.events:
                pass
        return run, served.asked if hasattr(served, "asked") else []


@pytest.mark.parametrize("agent", sorted(PACKAGES))
async def test_a_package_improves_the_subject_and_holdout_and_vault_agree(small, tmp_path, agent):
    package, config = PACKAGES[agent]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"the package {package} is not installed (pip install 'strop[{package}]')")
    run, _ = await play(small, tmp_path, agent, config)
    assert run.summary["counts"]["kept"] == 1
    assert run.summary["vault"]["best"]["metric"] > run.summary["vault"]["root"]["metric"]
    used = run.summary["budget"]["rollouts"]
    assert used["used"] <= used["limit"]
    assert await verify(run.folder) is not None


async def test_a_users_dspy_module_is_metered_by_the_run(small, tmp_path):
    pytest.importorskip("dspy", reason="the dspy extra (pip install 'strop[dspy]') is not installed")
    mine = {"module": f"{__name__}:solver", "metric": f"{__name__}:right", **PACKAGES["dspy"][1]}
    run, _ = await play(small, tmp_path, "dspy", mine)
    archive = await SqliteArchive.view(run.folder)
    try:
        own = [outcome for key, _, outcome in await archive.rollouts() if key.example.startswith("own/")]
    finally:
        await archive.aclose()
    assert len(own) >= 8
    assert run.summary["models"]["task"]["requests"] >= len(own)
    assert run.summary["counts"]["kept"] == 1
    assert await verify(run.folder) is not None


async def test_a_users_rollout_reaches_the_runs_model_by_itself(small, tmp_path):
    pytest.importorskip("agentlightning", reason="strop[agentlightning] is not installed")
    config = {**PACKAGES["agentlightning"][1], "rollout": f"{__name__}:solved"}
    run, _ = await play(small, tmp_path, "agentlightning", config)
    assert run.summary["counts"]["kept"] == 1
    assert await verify(run.folder) is not None


async def test_a_users_engine_reaches_the_runs_model_by_itself(small, tmp_path):
    if find_spec("textgrad") is None:
        pytest.skip("strop[textgrad] is not installed")
    config = {**PACKAGES["textgrad-package"][1], "engine": f"{__name__}:Engine"}
    run, _ = await play(small, tmp_path, "textgrad-package", config)
    assert run.summary["models"]["optimizer"]["requests"] > 3
    assert run.summary["counts"]["kept"] == 1
    assert await verify(run.folder) is not None


def ask(url, key, model, text):
    body = {"model": model, "messages": [{"role": "user", "content": text}]}
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    asked = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(asked, timeout=60) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]


class Engine:
    """A user's EngineLM, by its shape: it knows no more than its environment."""

    model_string = "mine"

    def generate(self, prompt, system_prompt=None, **kwargs):
        return ask(os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"], "default", f"{system_prompt}\n{prompt}")

    __call__ = generate


def solved(task, prompt_template, llm):
    said = ask(llm.endpoint, llm.api_key, llm.model, prompt_template.format(**task))
    return float(said == task["answer"])


def solver():
    import dspy

    return dspy.Predict("question -> output")


def right(example, pred, trace=None):
    return float(str(pred.output).strip() == str(example.output))
