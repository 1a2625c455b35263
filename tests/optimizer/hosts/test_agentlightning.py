"""The real agentlightning package, pinned below 0.4, over our host: APO, store and runners unchanged, our budget."""

import os
import re

import pytest

from harness.errors import InputError
from harness.optimizer.base import Endpoint, Reply
from harness.optimizer.drive import optimize
from harness.optimizer.registry import make_optimizer
from harness.testing.prompt_host import SimulatedHost
from harness.testing.prompt_world import questions
from optimizer.worlds import Plugged, PulledPlugError, Raising

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
agentlightning = pytest.importorskip(
    "agentlightning", reason="the agentlightning extra (pip install 'strop[agentlightning]') is not installed"
)
pytestmark = pytest.mark.filterwarnings("default")
SMALL = {"beam_rounds": 1, "beam_width": 1, "branch_factor": 2, "gradient_batch_size": 2, "val_batch_size": 3}


class Speaks:
    """A model that criticises what it is shown and adds a word to the prompt."""

    async def complete(self, role, request):
        await super().complete(role, request)
        prompt = "\n".join(text for _, text in request.messages)
        if request.purpose == "critique":
            return Reply("name the rule: units")
        assert "name the rule: units" in prompt
        word = ("units", "dates", "ties")[int(self.rng(request.tag).integers(3))]
        return Reply(f"```\n{re.findall(r'Solve[^.]*', prompt)[0]} {word}.\n```")


class Host(Speaks, SimulatedHost):
    def endpoint(self, role):
        return Endpoint("http://127.0.0.1:9/v1", "key", "served")


class Dying(Speaks, Plugged):
    pass


class Broken(Speaks, Raising):
    pass


def host(kind=Host, **more):
    return kind(train=questions(6, 1), val=questions(4, 2, "val"), **{"rollouts": 200, **more})


async def test_it_runs_unchanged_within_the_budget_and_its_critic_sees_what_was_said():
    at = host()
    done = await optimize(make_optimizer("agentlightning"), at, SMALL)
    assert 4 < at.used() <= 200
    assert len(done.nominees) > 1
    assert any(re.search("units|dates|ties", texts["parse"]) for texts in done.nominees)
    critique = next(request for request in at.asked if request.purpose == "critique")
    assert "kind " in "".join(text for _, text in critique.messages)


@pytest.mark.parametrize("limit", [3, 11])
async def test_it_never_uses_more_than_asked(limit):
    at = host(rollouts=limit)
    await optimize(make_optimizer("agentlightning"), at, SMALL)
    assert at.used() <= limit


async def test_its_runners_change_nothing_but_the_time_and_equal_seeds_agree():
    config = {**SMALL, "runners": 4}
    ends = [await optimize(make_optimizer("agentlightning"), host(), each) for each in (SMALL, SMALL, config)]
    assert ends[0] == ends[1]
    assert ends[0].nominees[0] == ends[2].nominees[0]


async def test_after_a_crash_nothing_is_paid_for_twice():
    whole = host(Dying)
    expected = await optimize(make_optimizer("agentlightning"), whole, SMALL)
    at = host(Dying)
    at.dies_at = 10
    kept = []

    async def keep(state):
        kept.append(state)

    with pytest.raises(PulledPlugError):
        await optimize(make_optimizer("agentlightning"), at, SMALL, keep=keep)
    at.dies_at = 10**9
    assert await optimize(make_optimizer("agentlightning"), at, SMALL, state=kept[-1]) == expected
    assert at.used() == whole.used()
    assert at.used("completions") == whole.used("completions")


async def test_a_task_that_always_raises_ends():
    assert (await optimize(make_optimizer("agentlightning"), host(Broken, rollouts=60), SMALL)).nominees


@agentlightning.rollout
def mine(task, prompt_template, llm, rollout):
    """A user's rollout: its task is the example, its prompt a template with braces of its own."""
    assert rollout.rollout_id
    assert llm.endpoint.startswith("http://127.0.0.1")
    text = prompt_template.format(**task)
    return float("units" in text and task["id"].endswith(("1", "3", "5")))


@agentlightning.rollout
async def mine_async(task, prompt_template):
    return 1.0 if "{not a field" in prompt_template.template else 0.25


@agentlightning.rollout
def emitting(task, prompt_template):
    agentlightning.emit_reward(0.1)
    agentlightning.emit_reward(0.75)


@agentlightning.rollout
def broken(task, prompt_template):
    raise OSError("down")


@pytest.mark.parametrize("name", ["mine", "mine_async", "emitting", "broken"])
async def test_a_users_rollout_is_run_as_it_is(name):
    at = host()
    done = await optimize(make_optimizer("agentlightning"), at, {**SMALL, "rollout": f"{__name__}:{name}"})
    assert all(key[1].startswith("own/") for key in at.results)
    assert len(at.results) == at.used() > 4
    assert ("units" if name == "mine" else "Solve") in done.nominees[0]["parse"]
    scores = {result.score for result in at.results.values()}
    assert scores <= {"mine": {0.0, 1.0}, "mine_async": {0.25}, "emitting": {0.75}, "broken": {None}}[name]


def test_literal_braces_in_a_template_are_text():
    from harness.optimizer.hosts.agentlightning_apo import Template

    assert Template(template='{"a": {kind}}', engine="f-string").format(kind="A") == '{"a": A}'


async def test_an_unknown_slot_is_named():
    with pytest.raises(InputError, match="nowhere"):
        await optimize(make_optimizer("agentlightning"), host(), {"slot": "nowhere"})
