"""The real textgrad package, pinned to 0.1.8, over our host: its graph and descent unchanged, our budget."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

from harness.optimizer.base import Reply
from harness.optimizer.drive import optimize
from harness.optimizer.registry import make_optimizer
from harness.testing.prompt_host import SimulatedHost
from harness.testing.prompt_world import questions
from optimizer.worlds import Plugged, PulledPlugError, Raising

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

if find_spec("textgrad") is None:  # not imported here: without our help that leaves a log in this folder
    pytest.skip("the textgrad extra (pip install 'strop[textgrad]') is not installed", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("default")
SMALL = {"steps": 4, "minibatch": 4}


class Speaks:
    """A model that criticises along the feedback and edits in textgrad's tags."""

    tags = True

    async def complete(self, role, request):
        await super().complete(role, request)
        prompt = request.messages[-1][1]
        if request.purpose == "backward":
            lacking = re.findall(r"(?:lacks rule|name) (\w+)", prompt)
            return Reply(" ".join(f"name {word}" for word in dict.fromkeys(lacking)) or "fine")
        text = re.findall(r"<VARIABLE>(.*?)</VARIABLE>", prompt, re.DOTALL)[0]
        words = [w for w in re.findall(r"\bname (\w+)", prompt) if w not in text]
        new = f"{text.strip(' .')} {words[0]}" if words else text
        return Reply(f"<IMPROVED_VARIABLE>{new}</IMPROVED_VARIABLE>" if self.tags else new)


class Host(Speaks, SimulatedHost):
    pass


class Dying(Speaks, Plugged):
    pass


class Broken(Speaks, Raising):
    pass


def host(kind=Host, **more):
    return kind(train=questions(12, 1), val=questions(10, 2, "val"), **{"rollouts": 200, **more})


async def test_it_improves_within_the_budget():
    at = host()
    done = await optimize(make_optimizer("textgrad-package"), at, SMALL)
    assert at.used() <= 200
    assert at.world.accuracy(done.nominees[0]) > at.world.accuracy(at.world.seed())
    assert all(request.purpose in {"backward", "rewrite"} for request in at.asked)


@pytest.mark.parametrize("limit", [3, 9, 17])
async def test_it_never_uses_more_than_asked(limit):
    at = host(rollouts=limit)
    done = await optimize(make_optimizer("textgrad-package"), at, SMALL)
    assert at.used() <= limit
    assert done.nominees


async def test_completions_that_run_out_end_it():
    at = host(completions=7)
    done = await optimize(make_optimizer("textgrad-package"), at, SMALL)
    assert at.used("completions") == 7
    assert "completions" in done.reason


async def test_equal_seeds_agree():
    ends = [await optimize(make_optimizer("textgrad-package"), host(seed=seed), SMALL) for seed in (0, 0, 1)]
    assert ends[0] == ends[1] != ends[2]


async def test_after_a_crash_nothing_is_paid_for_twice():
    whole = host(Dying)
    expected = await optimize(make_optimizer("textgrad-package"), whole, SMALL)
    at = host(Dying)
    at.dies_at = 19
    kept = []

    async def keep(state):
        kept.append(state)

    with pytest.raises(PulledPlugError):
        await optimize(make_optimizer("textgrad-package"), at, SMALL, keep=keep)
    at.dies_at = 10**9
    assert await optimize(make_optimizer("textgrad-package"), at, SMALL, state=kept[-1]) == expected
    assert at.used() == whole.used()
    assert at.used("completions") == whole.used("completions")


async def test_a_reply_without_its_tags_is_no_edit_and_a_raising_task_ends():
    at = host()
    at.tags = False
    done = await optimize(make_optimizer("textgrad-package"), at, SMALL)
    assert done.nominees == ({slot.name: slot.text for slot in at.slots},)
    assert (await optimize(make_optimizer("textgrad-package"), host(Broken), SMALL)).nominees


async def test_a_users_engine_is_called_as_it_is():
    at = host()
    done = await optimize(make_optimizer("textgrad-package"), at, {**SMALL, "engine": f"{__name__}:Mine"})
    assert done.nominees[0]["parse"] == "mine"
    assert at.used("completions") == 0
    down = await optimize(make_optimizer("textgrad-package"), host(), {**SMALL, "engine": f"{__name__}:Down"})
    assert "failed: OSError('down')" in down.reason


class Mine:
    """A user's EngineLM, by its shape."""

    model_string = "mine"

    def generate(self, prompt, system_prompt=None, **kwargs):
        return "<IMPROVED_VARIABLE>mine</IMPROVED_VARIABLE>"

    __call__ = generate


class Down(Mine):
    def __call__(self, *args, **kwargs):
        raise OSError("down")


def test_importing_it_leaves_nothing_on_the_disk(tmp_path):
    words = (
        "import os; from harness.optimizer.hosts.textgrad import package; p = package(); "
        "import logging; logging.getLogger('textgrad').info('x'); assert 'TEXTGRAD_LOG_DIR' not in os.environ"
    )
    (tmp_path / "home").mkdir()
    (tmp_path / "temp").mkdir()
    home = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "temp"), "PATH": os.environ["PATH"]}
    subprocess.run([sys.executable, "-P", "-c", words], env=home, cwd=tmp_path, check=True, timeout=120)
    assert not [path for path in (tmp_path / "temp").rglob("*") if path.is_file() or "textgrad" in path.name]
    assert not (tmp_path / "logs").exists()
