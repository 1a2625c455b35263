"""Every setting of every optimizer: documented ones exist, each changes what is done, and no other type is taken."""

import re
from pathlib import Path

import pytest

from harness.errors import InputError
from harness.optimizer.ace import AceSettings
from harness.optimizer.ape import ApeSettings
from harness.optimizer.apo import ApoSettings
from harness.optimizer.bootstrap import BootstrapSettings
from harness.optimizer.drive import optimize
from harness.optimizer.gepa import GepaSettings
from harness.optimizer.mipro import MiproSettings
from harness.optimizer.opro import OproSettings
from harness.optimizer.protegi import ProtegiSettings
from harness.optimizer.registry import make_optimizer
from harness.optimizer.textgrad import TextGradSettings
from harness.research.optimize.agent import HostSettings, OptimizerAgent
from harness.testing.prompt_host import SimulatedHost
from harness.testing.prompt_world import questions
from optimizer.worlds import SMALL

SETTINGS = {
    "ace": AceSettings,
    "ape": ApeSettings,
    "apo": ApoSettings,
    "bootstrap": BootstrapSettings,
    "gepa": GepaSettings,
    "mipro": MiproSettings,
    "opro": OproSettings,
    "protegi": ProtegiSettings,
    "textgrad": TextGradSettings,
}
EVERY = {**SETTINGS, "host": HostSettings}
DOCS = (Path(__file__).parents[2] / "docs/optimizers.md").read_text("utf-8")
KEYS = [(name, key) for name, kind in EVERY.items() for key in kind.model_fields]
ELSEWHERE = {("apo", "rollout_batch_timeout")}  # test_deadline.py: simulated rollouts take no time
BASE = {  # what a setting needs beside it to have an effect
    ("ace", "most_bullets"): {"steps": 12},
    ("ace", "most_chars"): {"steps": 12},
    ("ape", "c"): {"samples": 1, "ucb_rounds": 8, "arms": 2},
    ("apo", "min_improvement_threshold"): {"patience": 1, "beam_rounds": 6},
    ("apo", "enable_prompt_candidates"): {"paraphrases": 0},
    ("bootstrap", "balance"): {"per_value": 1},
    ("bootstrap", "per_value"): {"balance": "kind"},
    ("gepa", "select"): {"iterations": 40, "patience": 40},
    ("gepa", "merge_every"): {"iterations": 100, "patience": 100, "minibatch": 6},
    ("gepa", "per_step"): {"parallel": 2},
    ("gepa", "patience"): {"iterations": 200},
    ("gepa", "full_score"): {"minibatch": 1},
    ("mipro", "balance"): {"per_value": 1},
    ("mipro", "per_value"): {"balance": "kind"},
    ("mipro", "sampler"): {"trials": 20},
    ("protegi", "c"): {"samples": 1, "ucb_rounds": 8, "arms": 2},
}
VALUE = {
    ("ace", "slot"): "answer",
    ("ace", "most_bullets"): 1,
    ("ace", "most_chars"): 20,
    ("ape", "c"): 50.0,
    ("apo", "score_threshold"): 0.01,
    ("apo", "min_improvement_threshold"): 0.9,
    ("bootstrap", "passing"): None,
    ("bootstrap", "balance"): "kind",
    ("bootstrap", "per_value"): 1,
    ("gepa", "select"): "best",
    ("gepa", "merge_every"): 1,
    ("gepa", "per_step"): 5,
    ("gepa", "patience"): 2,
    ("gepa", "full_score"): 1.0,
    ("mipro", "balance"): "kind",
    ("mipro", "per_value"): 1,
    ("mipro", "full_every"): 1,
    ("mipro", "passing"): 0.0,
    ("mipro", "sampler"): "random",
    ("opro", "shown"): 1,
    ("opro", "score_on"): "val",
    ("protegi", "cap"): 1,
    ("protegi", "c"): 50.0,
    ("protegi", "full_score"): 2.0,
    ("textgrad", "frozen"): ["answer"],
}


def documented():
    for name in SETTINGS:
        row = re.search(rf"^\| `{name}` \|[^|]*\|([^|]*)\|", DOCS, re.MULTILINE)
        for key in re.findall(r"`(\w+)`", row[1]):
            yield name, key


def refused(name, values):
    with pytest.raises(InputError) as caught:
        EVERY[name].read(values)
    return caught.value


@pytest.mark.parametrize(("name", "key"), list(documented()))
def test_a_documented_key_is_a_setting(name, key):
    assert key in SETTINGS[name].model_fields


@pytest.mark.parametrize("name", EVERY)
def test_an_unknown_key_is_an_error_that_names_the_known_ones(name):
    error = refused(name, {"nonsense": 1})
    assert "nonsense" in error.key
    assert all(key in error.mend for key in EVERY[name].model_fields)


@pytest.mark.parametrize(("name", "key"), KEYS)
def test_another_type_is_an_error_that_names_the_key(name, key):
    default = EVERY[name].model_fields[key].default
    wrong = [{}, [[]], 0 if isinstance(default, (str, bool, tuple)) else "1"]
    if not isinstance(default, bool):
        wrong.append(True)
    if isinstance(default, int):
        wrong.append(1.5)
    if not isinstance(default, (str, tuple)):
        wrong += [float("nan"), float("inf")]
    for value in wrong:
        assert key in refused(name, {key: value}).key, value


@pytest.mark.parametrize(("name", "key"), KEYS)
def test_what_counts_something_is_checked_for_its_range(name, key):
    default = EVERY[name].model_fields[key].default
    free = {"score_threshold", "full_score", "passing"}  # scores have the range of the subject's metric
    if isinstance(default, (int, float)) and not isinstance(default, bool) and key not in free:
        assert key in refused(name, {key: -1}).key


async def course(name, config):
    """All that a run did: rollouts, model calls with their temperature, how it ended."""
    host = SimulatedHost(train=questions(20, 1), val=questions(12, 2, "val"))
    done = await optimize(make_optimizer(name), host, config)
    return set(host.results), [str(asked) for asked in host.asked], done.nominees, done.reason


def other(name, key, config):
    default = config.get(key, SETTINGS[name].model_fields[key].default)
    if isinstance(default, bool):
        return not default
    return default + 1 if isinstance(default, int) else default / 2 + 0.1


@pytest.mark.parametrize(("name", "key"), [pair for pair in KEYS if pair[0] in SETTINGS and pair not in ELSEWHERE])
async def test_every_setting_changes_what_is_done(name, key):
    config = {**SMALL[name], **BASE.get((name, key), {})}
    value = VALUE[name, key] if (name, key) in VALUE else other(name, key, config)
    assert await course(name, config) != await course(name, {**config, key: value})


def test_two_names_of_one_setting_are_told_as_that():
    with pytest.raises(InputError, match="means beam_rounds, which is given too") as caught:
        make_optimizer("apo").check({"max_iterations": 3, "beam_rounds": 3})
    assert caught.value.key == "agent.config.max_iterations"
    make_optimizer("apo").check({"max_iterations": 3})


def test_a_misspelt_setting_is_told_the_hosts_own_too():
    with pytest.raises(InputError) as caught:
        OptimizerAgent.of("gepa", {"gradient_modle": "small"})
    assert "of every optimizer: " in caught.value.mend
    assert "gradient_model" in caught.value.mend
