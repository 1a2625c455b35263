"""Experiment trackers: told the run's numbers in order, and never able to hurt it."""

import sys
import time

import pytest
from research.test_models import better, settings
from support.toy import make_toy

from harness import open_run
from harness.errors import InputError
from harness.events import Notice
from harness.research.watching import watching
from harness.telemetry import tracker
from harness.telemetry.tracker import TrackerWatcher, find
from harness.testing.scripted_model import ScriptedModel


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("TOY_KEY", "sk-test")


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the user's own, by name."""
    monkeypatch.syspath_prepend(str(tmp_path / "mine"))
    (tmp_path / "mine").mkdir()

    def write(text):
        (tmp_path / "mine" / "my_tracker.py").write_text(text)
        sys.modules.pop("my_tracker", None)
        return "my_tracker"

    return write


async def run_of(tmp_path, trackers=(), **overrides):
    async with ScriptedModel(better) as model:
        opening = open_run(
            make_toy(tmp_path / "toy"),
            workers=1,
            overrides=settings(model, **overrides),
            runs=tmp_path / "runs",
            trackers=trackers,
        )
        async with opening as run:
            return [event async for event in run.events], run


async def test_an_object_with_log_is_told_root_steps_and_vault(tmp_path):
    class Run:
        def __init__(self):
            self.told = []

        def log(self, data, step):
            self.told.append((step, data))

    mine = Run()
    _, run = await run_of(tmp_path, [mine])
    steps = [step for step, _ in mine.told]
    assert steps == [0, 1, 2, 3, 4, 4]
    assert mine.told[0][1] == {"score": run.summary["root"]["metric"], "best": run.summary["root"]["metric"]}
    last = mine.told[4][1]
    assert last["best"] == run.summary["incumbent"]["metric"]
    assert last["used/tokens_in"] == run.summary["budget"]["tokens_in"]["used"]
    assert mine.told[5][1] == {
        "vault/root": run.summary["vault"]["root"]["metric"],
        "vault/best": run.summary["vault"]["best"]["metric"],
    }


async def test_a_policy_names_a_function_of_the_users_own(tmp_path, module):
    name = module("TOLD = []\ndef log(numbers, step):\n    TOLD.append((step, numbers['best']))\n")
    await run_of(tmp_path, **{"telemetry.tracker": f"{name}:log", "budget.steps": 1})
    assert [step for step, _ in sys.modules[name].TOLD][:2] == [0, 1]


async def test_a_tracker_that_raises_is_told_once_and_the_run_is_none_the_worse(tmp_path):
    calls = []

    def broken(numbers, step):
        calls.append(step)
        raise ConnectionError("no such project")

    events, run = await run_of(tmp_path, [broken], **{"budget.steps": 2})
    assert calls == [0]
    assert run.summary["state"] == "finished"
    said = [event.text for event in events if isinstance(event, Notice)]
    assert said == [
        "telemetry: the tracker failed at step 0 and was not called again: ConnectionError: no such project"
    ]


async def test_a_tracker_that_hangs_is_left_behind(monkeypatch):
    monkeypatch.setattr(tracker, "CLOSE_S", 0.1)
    watcher = TrackerWatcher(lambda numbers, step: time.sleep(3600))
    watcher._put({"score": 1.0}, 0)
    assert "was left" in await watcher.close()


async def test_a_class_is_made_and_an_unusable_thing_is_refused_before_anything_is_written(tmp_path, module):
    name = module(
        "class T:\n    def log(self, data, step=None): pass\nN = 3\nasync def a(n, s): pass\nimport missing_x\n"
    )
    with pytest.raises(InputError, match="cannot be loaded: ModuleNotFoundError"):
        find(f"{name}:T")
    name = module("class T:\n    def log(self, data, step=None): pass\nN = 3\nasync def a(n, s): pass\n")
    assert type(find(f"{name}:T")).__name__ == "T"
    for attribute, text in (("N", "a int is no tracker"), ("a", "a function is no tracker")):
        with pytest.raises(InputError, match=text):
            find(f"{name}:{attribute}")
    with pytest.raises(InputError, match="no tracker called 'nobody'"):
        await run_of(tmp_path, **{"telemetry.tracker": "nobody"})
    assert not (tmp_path / "runs").exists()


async def test_nobody_watches_by_default():
    from harness.policy.schema import Policy

    assert "telemetry" not in Policy().model_dump(mode="json")
    async with watching("r", Policy(), (), print) as watch:
        assert watch.watchers == []
