import gc
import os
import threading

import anyio
import pytest
from docker import APIClient
from support.doorway import Doorway
from support.engine import gone, image, needs_docker
from support.toy import make_toy

from harness import open_run
from harness.box.base import BoxSpec, Command
from harness.box.docker import DockerBoxes
from harness.errors import InfraError
from harness.events import RolloutFinished, RunFinished
from harness.testing.box_contract import python

# where the engine goes away under its connect, the SDK leaves the socket to the collector
pytestmark = [needs_docker(), pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")]
SLEEP = Command(("python", "-c", "import time; time.sleep(60)"), deadline_s=50)


@pytest.fixture
def doorway(tmp_path, monkeypatch):
    door = Doorway(tmp_path / "engine.sock")
    door.open()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{door.path}")
    yield door
    door.resume()
    door.close()
    gc.collect()  # here, and not in whatever test runs then


async def test_a_restart_in_the_middle_is_an_infra_error_and_the_next_box_opens(doorway):
    owner = f"restart-{os.getpid()}"
    boxes = DockerBoxes(image())
    await boxes.prepare()
    async with boxes.open(BoxSpec(owner=owner)) as box:
        threading.Timer(0.5, doorway.close).start()
        with pytest.raises(InfraError), anyio.fail_after(20):
            await box.exec(SLEEP)
    threading.Timer(1.0, doorway.open).start()  # back in a second: the next opening waits for it
    async with boxes.open(BoxSpec(owner=owner)) as box:
        assert (await python(box, "print(6 * 7)")).stdout == b"42\n"
    assert gone(owner)


async def test_an_engine_that_hangs_is_an_infra_error_in_time(doorway, monkeypatch):
    monkeypatch.setattr("harness.box.live.GRACE_S", 0.3)
    monkeypatch.setattr("harness.box.engine.PING_S", 0.5)
    monkeypatch.setattr("harness.box.engine.CALL_S", 2.0)
    owner = f"hang-{os.getpid()}"
    boxes = DockerBoxes(image())
    await boxes.prepare()
    boxes._engine._api.timeout = 2.0
    with anyio.fail_after(40):
        async with boxes.open(BoxSpec(owner=owner)) as box:
            doorway.hang()
            with pytest.raises(InfraError, match="does not answer"):
                await box.exec(Command(("python", "-c", "pass"), deadline_s=0.3))
    doorway.resume()
    assert gone(owner)


async def played(subject, runs, each):
    chosen = {"box.backend": "docker", "box.image": image(), "agent.name": "search", "budget.steps": 1}
    async with open_run(subject, seed=3, workers=2, overrides=chosen, runs=runs) as run:
        events = []
        async for event in run.events:
            events.append(event)
            each(len([one for one in events if isinstance(one, RolloutFinished)]))
    assert isinstance(events[-1], RunFinished)
    return run.summary["ledger_head"], {event.outcome.status for event in events if isinstance(event, RolloutFinished)}


async def test_an_engine_that_restarts_in_a_run_changes_nothing_that_is_decided(doorway, tmp_path):
    subject, seen = make_toy(tmp_path / "toy"), []

    def restart(finished):
        if finished == 2 and not seen:
            seen.append(finished)
            doorway.close()
            threading.Timer(0.7, doorway.open).start()

    cut = await played(subject, tmp_path / "cut", restart)
    assert seen
    assert cut == await played(subject, tmp_path / "whole", lambda finished: None)


async def test_a_container_whose_making_was_not_heard_of_is_removed(doorway, monkeypatch):
    owner = f"unheard-{os.getpid()}"
    boxes = DockerBoxes(image())
    await boxes.prepare()
    make = APIClient.create_container

    def unheard(api, **recipe):
        make(api, **recipe)
        doorway.close()
        raise ConnectionResetError

    with monkeypatch.context() as patch:
        patch.setattr(APIClient, "create_container", unheard)
        patch.setattr("harness.box.engine.AWAY_S", 0.5)
        with pytest.raises(InfraError):
            async with boxes.open(BoxSpec(owner=owner)):
                pass
    doorway.open()
    async with boxes.open(BoxSpec(owner=owner)):
        pass
    assert gone(owner)
