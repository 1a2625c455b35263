import os
import signal
import subprocess
import sys
from contextlib import suppress

import anyio
import pytest
from support.engine import client, containers, gone, image, needs_docker

from harness.box import engine, host
from harness.box.base import BoxSpec, Command, Mount
from harness.box.containers import sweep_containers
from harness.box.docker import Demultiplexed, DockerBoxes, available
from harness.box.selfcheck import selfcheck
from harness.cli.arguments import sweep_boxes
from harness.errors import BoxUnavailableError, InfraError, LimitError
from harness.limits import Limits
from harness.testing.box_contract import BoxContract, python
from harness.tree import Entry

docker = needs_docker()


def boxes():
    return DockerBoxes(image() or "none")


@docker
class TestDockerBoxes(BoxContract):
    def boxes(self):
        return boxes()


@docker
async def test_every_promise_is_held():
    probes = await selfcheck(boxes())
    assert len(probes) >= 60
    assert {probe.name: probe.detail for probe in probes if probe.held is False} == {}


@docker
async def test_an_image_that_is_not_there_is_said_with_a_mend():
    with pytest.raises(BoxUnavailableError) as caught:
        await DockerBoxes("no-such-image").prepare()
    assert "strop image" in caught.value.mend
    assert not available("no-such-image")


async def test_no_engine_is_said_with_a_mend(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(BoxUnavailableError) as caught:
        await DockerBoxes().prepare()
    assert "DOCKER_HOST" in caught.value.mend


@docker
async def test_a_mount_is_read_only(tmp_path):
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    (tmp_path / "f").write_text("mounted")
    async with boxes().open(BoxSpec(owner="mount", mounts=(Mount(tmp_path, "/data/big"),))) as box:
        done = await python(box, "print(open('/data/big/f').read()); open('/data/big/g', 'w')")
        assert (done.exit_code, done.stdout) == (1, b"mounted\n")
        await box.reset()
        assert (await python(box, "print(open('/data/big/f').read())")).stdout == b"mounted\n"


@docker
async def test_a_mount_that_the_engine_does_not_have_is_an_error_and_not_an_empty_folder(tmp_path):
    with pytest.raises(InfraError, match="does not exist"):
        async with boxes().open(BoxSpec(owner="mount", mounts=(Mount(tmp_path / "none", "/data/big"),))):
            pass
    assert not (tmp_path / "none").exists()


@docker
async def test_disk_full_in_put_is_a_limit():
    async with boxes().open(BoxSpec(owner="disk", limits=Limits(disk_mb=1))) as box:
        with pytest.raises(LimitError, match="disk"):
            await box.put([Entry(b"f", "file", data=bytes(2 << 20))], "/work")
        await box.reset()
        await box.put([Entry(b"f", "file", data=bytes(1 << 19))], "/work")


HOST = """
import anyio, sys
from harness.box.base import BoxSpec, Command
from harness.box.docker import DockerBoxes
async def main():
    async with DockerBoxes(sys.argv[1]).open(BoxSpec(owner=sys.argv[2])) as box:
        print("open", flush=True)
        await box.exec(Command(("python", "-c", "import os, time; os.fork(); os.setsid(); time.sleep(600)"), 600))
anyio.run(main)
"""


@docker
def test_kill_9_of_the_host_leaves_no_container():
    owner = f"killed-{os.getpid()}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen([sys.executable, "-c", HOST, image(), owner], stdout=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    with process, process.stdout:
        assert process.stdout.readline() == b"open\n"
        assert len(containers(owner)) == 1
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert gone(owner)


@docker
async def test_what_dead_hosts_left_is_reaped_and_nothing_of_the_living():
    owner = f"orphan-{os.getpid()}"
    dead = f"{host.scope().boot}.{host.scope().namespace}.{'0' * 12}"
    elsewhere = "0" * 8 + dead[8:]
    with client() as api:
        made = [
            api.create_container(image(), ["true"], labels={"strop.owner": owner, "strop.host": found})["Id"]
            for found in (dead, host.token(), elsewhere)
        ]
        try:
            await boxes().reap([])
            assert {found["Id"] for found in containers(owner)} == set(made[1:])
            await boxes().reap([owner])
            assert containers(owner) == []
        finally:
            for one in made:
                engine.remove(api, one)


@docker
def test_the_next_command_removes_the_containers_of_a_dead_host():
    owner = f"swept-{os.getpid()}"
    dead = f"{host.scope().boot}.{host.scope().namespace}.{'1' * 12}"
    with client() as api:
        for found in (dead, host.token()):
            api.create_container(image(), ["true"], labels={"strop.owner": owner, "strop.host": found})
        sweep_boxes()
        (left,) = containers(owner)
        assert left["Labels"]["strop.host"] == host.token()
        engine.remove(api, left["Id"])


def test_a_look_for_containers_needs_no_engine(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    assert sweep_containers() == 0
    monkeypatch.setenv("DOCKER_HOST", "")
    monkeypatch.setenv("DOCKER_CONTEXT", "not-there")
    assert sweep_containers() == 0


@docker
async def test_leaving_the_context_leaves_no_container():
    owner = f"left-{os.getpid()}"
    async with boxes().open(BoxSpec(owner=owner)) as box:
        with anyio.move_on_after(0.2):
            await box.exec(Command(("python", "-c", "import os, time; os.fork() or os.setsid(); time.sleep(60)"), 50))
        assert gone(owner)
    with anyio.move_on_after(0.05):
        async with boxes().open(BoxSpec(owner=owner)):
            await anyio.sleep_forever()
    assert gone(owner)


@docker
async def test_a_container_killed_under_us_is_an_infra_error():
    owner = f"lost-{os.getpid()}"
    async with boxes().open(BoxSpec(owner=owner)) as box:
        with client() as api:
            engine.remove(api, containers(owner)[0]["Id"])
        with pytest.raises(InfraError):
            await python(box, "print(1)")


class Parts:
    def __init__(self, *parts):
        self.parts = list(parts)

    async def receive(self, max_bytes=65536):
        if not self.parts:
            raise anyio.EndOfStream
        return self.parts.pop(0)


async def test_the_engines_frames_come_apart_at_any_cut():
    whole = b"".join(
        bytes([kind, 0, 0, 0]) + len(data).to_bytes(4) + data
        for kind, data in ((1, b"one"), (2, b"trouble"), (1, b""), (1, b"two" * 1000))
    )
    for size in (1, 3, 8, 9, 64, len(whole)):
        stream = Demultiplexed(Parts(*(whole[at : at + size] for at in range(0, len(whole), size))))
        seen = b""
        with suppress(anyio.EndOfStream):
            while True:
                seen += await stream.receive(100)
        assert (seen, bytes(stream.errors)) == (b"one" + b"two" * 1000, b"trouble")


async def test_a_stream_that_is_none_is_an_infra_error():
    for data in (b"HTTP/1.1 500\r\n", b"\x01\x01\0\0\0\0\0\x01x", b"\x07\0\0\0\0\0\0\x01x"):
        with pytest.raises(InfraError):
            await Demultiplexed(Parts(data)).receive()
