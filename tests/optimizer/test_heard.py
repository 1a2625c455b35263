"""Replies that could not be used: counted by role and reason, whatever the optimizer."""

import pytest

from harness.optimizer.base import Refusal, Role, Slot
from harness.optimizer.drive import optimize
from harness.optimizer.heard import OTHER, Heard
from harness.optimizer.registry import BUILT_IN, make_optimizer
from harness.testing.prompt_host import SimulatedHost
from optimizer.worlds import SMALL

ASKING = sorted(BUILT_IN.keys() - {"bootstrap"})


class Says:
    """A critic that always says the same, or nothing."""

    def __init__(self, text):
        self.text = text

    def answer(self, request, rng):
        return self.text


async def heard(name, text):
    host = SimulatedHost(rollouts=400, critic=Says(text))
    await optimize(make_optimizer(name), host, SMALL[name])
    return host.heard.json()


@pytest.mark.parametrize("name", ASKING)
async def test_replies_without_text_are_counted_for_every_optimizer(name):
    counts = (await heard(name, None))["proposes"]
    assert counts["replies"] > 0
    assert counts["unusable"] == {"an empty reply": counts["replies"]}


@pytest.mark.parametrize("name", ASKING)
async def test_nonsense_is_counted_for_every_optimizer(name):
    counts = (await heard(name, "```text\ncut off in the mid"))["proposes"]
    whys = counts["unusable"]
    assert whys
    assert all("code fence" in why or "no list of additions" in why for why in whys), whys
    assert sum(whys.values()) <= counts["replies"]


@pytest.mark.parametrize("name", ["opro", "ape", "gepa"])
async def test_a_model_that_repeats_itself_is_told(name):
    counts = (await heard(name, "Answer at once."))["proposes"]
    assert list(counts["unusable"]) == ["the same as a text already tried"]
    assert counts["unusable"]["the same as a text already tried"] < counts["replies"]


async def test_bootstrap_asks_nobody_and_refused_examples_are_no_reply():
    assert await heard("bootstrap", "x") == {}
    slots = [Slot("demos", "[]", kind="demos")]
    counts = Heard()
    counts.refused(slots, {"demos": "[1]"}, Refusal("demos: 3 characters, more than 2"))
    assert counts.json() == {}


def test_reasons_are_bounded_and_numbers_make_no_new_one():
    counts, slots = Heard(), [Slot("solve", "x")]
    for n in range(40):
        counts.took(Role.PROPOSES, "y")
        counts.refused(slots, {"solve": "y"}, Refusal(f"solve: {n} characters, more than 2"))
    assert counts.json()["proposes"] == {"replies": 40, "unusable": {"solve: too long": 40}}
    for n in range(40):
        counts.unusable(Role.EVALUATES, f"reason {n}\x1b[2J")
    found = Heard(counts.json()).json()
    assert found == counts.json()
    assert counts._unusable["evaluates"][OTHER] == 28
    assert "\x1b" not in str(counts._unusable["evaluates"])
