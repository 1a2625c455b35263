"""The real dspy package, pinned to 3.4, over our host: its optimizers unchanged, our budget, our account of it."""

import json
import re

import pytest

from harness.errors import AgentError, InputError
from harness.optimizer.base import Reply, Role
from harness.optimizer.drive import optimize
from harness.optimizer.registry import make_optimizer
from harness.testing.prompt_host import SimulatedHost
from harness.testing.prompt_world import RULES, questions
from optimizer.worlds import Plugged, PulledPlugError, Raising

dspy = pytest.importorskip(
    "dspy", minversion="3.4", reason="the dspy extra (pip install 'strop[dspy]') is not installed"
)
pytestmark = pytest.mark.filterwarnings("default")
MIPRO = {"num_candidates": 3, "num_trials": 4, "minibatch": False, "max_bootstrapped_demos": 2, "max_labeled_demos": 1}


class Speaks:
    """A model that fills in every field a dspy signature asks for: with a rule that failures lack, or any of the rules.

    As the user's program (`serves`) it answers by the world's chance, told the kind and the instruction.
    """

    async def complete(self, role, request):
        await super().complete(role, request)
        prompt = request.messages[-1][1]
        said = self.served(request) if role is Role.SERVES else f"Solve {self.rule(prompt, request.tag)}"
        as_json = re.findall(r"`(\w+)`", prompt.rpartition("order of fields")[2]) if "JSON object" in prompt else []
        if as_json:
            return Reply(json.dumps(dict.fromkeys(as_json, said)))
        fields = re.findall(r"`\[\[ ## (\w+) ## \]\]`", prompt)
        parts = [f"[[ ## {name} ## ]]\n{said}" for name in dict.fromkeys(fields) if name != "completed"]
        return Reply("\n\n".join([*parts, "[[ ## completed ## ]]"]))

    def rule(self, prompt, tag):
        lacking = re.findall(r"lacks rule (\w+)", prompt)
        rules = sorted(set(lacking)) or list(RULES.values())
        return rules[int(self.rng(tag).integers(len(rules)))]

    def served(self, request):
        told = request.messages[0][1]
        kind = re.findall(r"## kind ## \]\]\n(\w)", request.messages[-1][1])[0]
        return "7" if RULES[kind] in told else "8"


class Host(Speaks, SimulatedHost):
    """The world with a model that speaks dspy's formats."""


class Dying(Speaks, Plugged):
    """The same, dying at the n-th call."""


class Broken(Speaks, Raising):
    """The same, with a task that always raises."""


class Solver(dspy.Module):
    """A user's own program."""

    def __init__(self):
        super().__init__()
        self.parse = dspy.Predict("kind -> output")
        self.answer = dspy.Predict("kind, hint -> output")

    def forward(self, kind):
        return self.answer(kind=kind, hint=self.parse(kind=kind).output)


def right(example, pred, trace=None):
    return float(pred.output == "7")


def host(kind=Host, **more):
    return kind(train=questions(12, 1), val=questions(10, 2, "val"), **{"rollouts": 200, **more})


@pytest.mark.parametrize(
    "config",
    [
        MIPRO,
        {"optimizer": "COPRO", "breadth": 3, "depth": 2},
        {"optimizer": "BootstrapFewShotWithRandomSearch", "num_candidate_programs": 2},
        {"optimizer": "SIMBA", "bsize": 6, "num_candidates": 2, "max_steps": 2},
        {"optimizer": "GEPA", "max_metric_calls": 60},
    ],
    ids=lambda config: config.get("optimizer", "MIPROv2"),
)
async def test_its_optimizers_run_unchanged_within_the_budget(config):
    at = host()
    done = await optimize(make_optimizer("dspy"), at, config)
    assert 10 < at.used() <= 200
    assert len(done.nominees) > 1
    assert at.world.accuracy(done.nominees[0]) >= at.world.accuracy(at.world.seed())


@pytest.mark.parametrize("limit", [3, 17, 41])
async def test_it_never_uses_more_than_asked(limit):
    at = host(rollouts=limit)
    await optimize(make_optimizer("dspy"), at, MIPRO)
    assert at.used() <= limit


async def test_its_own_threads_change_nothing_but_the_time():
    ends = [await optimize(make_optimizer("dspy"), host(), {**MIPRO, "threads": threads}) for threads in (1, 4)]
    assert ends[0].nominees[0] == ends[1].nominees[0]


async def test_equal_seeds_agree_and_others_do_not():
    ends = [await optimize(make_optimizer("dspy"), host(seed=seed), MIPRO) for seed in (0, 0, 1)]
    assert ends[0] == ends[1] != ends[2]


async def test_after_a_crash_nothing_is_paid_for_twice():
    whole = host(Dying)
    expected = await optimize(make_optimizer("dspy"), whole, MIPRO)
    at = host(Dying)
    at.dies_at = 21
    kept = []

    async def keep(state):
        kept.append(state)

    with pytest.raises(PulledPlugError):
        await optimize(make_optimizer("dspy"), at, MIPRO, keep=keep)
    at.dies_at = 10**9
    assert await optimize(make_optimizer("dspy"), at, MIPRO, state=kept[-1]) == expected
    assert at.used() == whole.used()
    assert at.used("completions") == whole.used("completions")


async def test_a_task_that_always_raises_ends():
    done = await optimize(make_optimizer("dspy"), host(Broken, rollouts=80), MIPRO)
    assert done.nominees


@pytest.mark.parametrize("optimizer", [MIPRO, {"optimizer": "GEPA", "max_metric_calls": 60}])
async def test_a_users_module_and_metric_run_unchanged_and_every_call_is_metered(optimizer):
    at = host()
    own = {"module": f"{__name__}:Solver", "metric": f"{__name__}:right", **optimizer}
    if optimizer is not MIPRO:
        own["metric"] = f"{__name__}:explained"
    done = await optimize(make_optimizer("dspy"), at, own)
    served = [key for key in at.results if key[1].startswith("own/")]
    assert len(served) == at.used() > 10
    assert at.used("completions") >= 2 * len(served)
    assert {name for texts in done.nominees for name in texts} == {"parse", "answer", "demos"}
    assert any(f"Solve {word}" in texts["answer"] for texts in done.nominees for word in RULES.values())


def explained(gold, pred, trace=None, pred_name=None, pred_trace=None):
    return dspy.Prediction(score=float(pred.output == "7"), feedback="wrong: lacks rule units")


async def test_a_module_with_a_predictor_that_no_slot_belongs_to_is_named():
    with pytest.raises(InputError, match="other"):
        await optimize(make_optimizer("dspy"), host(), {"module": f"{__name__}:Stranger"})


class Stranger(dspy.Module):
    def __init__(self):
        super().__init__()
        self.other = dspy.Predict("kind -> output")


@pytest.mark.parametrize(
    ("config", "word"),
    [({"optimizer": "Nobody"}, "Nobody"), ({"nonsense": 1}, "nonsense"), ({"metric": "a:b"}, "module")],
)
def test_a_setting_that_dspy_does_not_take_is_named(config, word):
    with pytest.raises(InputError, match=word):
        make_optimizer("dspy").check(config)


async def test_a_program_that_dspy_never_gets_to_run_is_an_error(monkeypatch):
    monkeypatch.delattr("harness.optimizer.hosts.dspy_program.Course.texts")
    config = {"optimizer": "BootstrapFewShotWithRandomSearch", "num_candidate_programs": 1, "max_errors": 10**6}
    with pytest.raises(AgentError, match="without a single rollout"):
        await optimize(make_optimizer("dspy"), host(), config)


async def test_nothing_is_printed(capfd):
    await optimize(make_optimizer("dspy"), host(), {"optimizer": "BootstrapFewShotWithRandomSearch"})
    said = capfd.readouterr()
    assert not said.out
    assert "it/s" not in said.err


class Mumbles(Host):
    """A model whose every third proposal is in no form, and every fifth empty."""

    def __init__(self, **more):
        super().__init__(**more)
        self.asked_for = self.formless = self.empty = 0

    async def complete(self, role, request):
        reply = await super().complete(role, request)
        if role is not Role.PROPOSES or "JSON object" in request.messages[-1][1]:
            return reply  # dspy's second try
        self.asked_for += 1
        if self.asked_for % 4 == 0:
            self.empty += 1
            self.heard.unusable(role, "an empty reply")
            return Reply(None)
        if self.asked_for % 3 == 0:
            self.formless += 1
            return Reply("As you wish: be brief.")
        return reply


@pytest.mark.parametrize("config", [MIPRO, {"optimizer": "COPRO", "breadth": 4, "depth": 2}])
async def test_replies_that_dspy_cannot_read_are_counted_once(config):
    at = host(Mumbles)
    await optimize(make_optimizer("dspy"), at, config)
    unusable = at.heard.json()["proposes"]["unusable"]
    counted = unusable["not in the form that dspy asked for"]
    assert counted == at.formless if config is MIPRO else 0 < counted <= at.formless  # COPRO reads no reply after one
    assert unusable["an empty reply"] == at.empty > 0


class Refuses(Host):
    """A model that keeps to no form at all once it is asked to propose."""

    async def complete(self, role, request):
        reply = await super().complete(role, request)
        return Reply("As you wish: be brief.") if role is Role.PROPOSES else reply


async def test_what_dspy_scored_before_it_failed_stands():
    at = host(Refuses)
    done = await optimize(make_optimizer("dspy"), at, MIPRO)
    assert done.reason.startswith("dspy failed: AdapterParseError")
    assert done.nominees[0]["parse"] == at.world.seed()["parse"]
    assert at.used() > 0
