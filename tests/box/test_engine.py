import os
import threading
import time

import anyio
import pytest
from support.doorway import Doorway
from support.engine import client, image, needs_docker

from harness.box.base import BoxSpec, Command
from harness.box.docker import DockerBoxes
from harness.errors import InfraError
from harness.testing.box_contract import python

pytestmark = needs_docker()
SLEEP = Command(("python", "-c", "import time; time.sleep(60)"), deadline_s=50)


@pytest.fixture
def doorway(tmp_path, monkeypatch):
    door = Doorway(tmp_path / "engine.sock")
    door.open()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{door.path}")
    yield door
    door.resume()
    door.close()


def left(owner, monkeypatch):
    monkeypatch.delenv("DOCKER_HOST")
    deadline = time.monotonic() + 30
    with client() as api:
        while found := api.containers(all=True, filters={"label": f"strop.owner={owner}"}):
            if time.monotonic() > deadline:
                return found
            time.sleep(0.1)
    return []


async def test_a_restart_in_the_middle_is_an_infra_error_and_the_next_box_opens(doorway, monkeypatch):
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
    assert left(owner, monkeypatch) == []


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
    assert left(owner, monkeypatch) == []
