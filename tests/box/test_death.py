"""Boxes opened and killed at random, and workers that turn hostile: nothing is left, the host goes on."""

import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine import client, image, needs_docker

from harness.box import cgroup, host, reaper, wire
from harness.box.base import BoxSpec, Command
from harness.box.client import Client
from harness.box.docker import Demultiplexed, DockerBoxes
from harness.box.embedded import EmbeddedBoxes
from harness.box.live import LiveBox, Place
from harness.errors import BoxError, InfraError
from harness.limits import Limits


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def of_ours():
    processes = [pid for pid, found in reaper.marked() if found == host.token()]
    return [*processes, *(group for group, found in cgroup.marked() if found == host.token())]


async def random_deaths(boxes, owner, count, kill, chance):
    """Open `count` boxes, eight at a time, and end each in a random way at a random moment."""
    slots = anyio.CapacityLimiter(8)

    async def one():
        async with slots:
            with anyio.move_on_after(chance.choice((0.01, 0.05, 0.2, 30))):
                try:
                    async with boxes.open(BoxSpec(owner=owner, limits=Limits(disk_mb=8))) as box:
                        if chance.random() < 0.3:
                            await kill()
                        await box.exec(Command(("python", "-c", "import os, time; os.fork(); time.sleep(0.05)"), 20))
                except BoxError:
                    pass  # killed under us: an error of the box, whichever it is

    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(one)


async def test_embedded_boxes_killed_at_random_leave_nothing():
    chance, owner = random.Random(7), f"deaths-{os.getpid()}"
    boxes = EmbeddedBoxes()
    await boxes.prepare()
    before = descriptors()

    async def kill():
        for pid in reaper.labelled([owner]):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            return

    await random_deaths(boxes, owner, 200, kill, chance)
    assert of_ours() == []
    assert descriptors() == before


@needs_docker()
async def test_docker_boxes_killed_at_random_leave_nothing():
    chance, owner = random.Random(7), f"deaths-{os.getpid()}"
    boxes = DockerBoxes(image())
    await boxes.prepare()
    with client() as api:

        def victims():
            return api.containers(all=True, filters={"label": f"strop.owner={owner}"})

        async def kill():
            for found in (await anyio.to_thread.run_sync(victims))[:1]:
                await anyio.to_thread.run_sync(_kill, api, found["Id"])

        await random_deaths(boxes, owner, 40, kill, chance)
        for _ in range(300):
            if not victims():
                return
            await anyio.sleep(0.1)
        pytest.fail("containers are left")


def _kill(api, container):
    from docker.errors import APIError

    with suppress(APIError):  # it ended first
        api.kill(container)


class Hostile:
    """A worker's end of the wire that says what it likes, in pieces, then ends or says nothing more."""

    def __init__(self, pieces, *, silent=False):
        self.pieces = list(pieces)
        self.silent = silent
        self.ended = False

    async def send(self, data):
        await anyio.lowlevel.checkpoint()

    async def receive(self, max_bytes=65536):
        await anyio.lowlevel.checkpoint()
        if self.pieces:
            piece = self.pieces.pop(0)
            if len(piece) > max_bytes:
                self.pieces.insert(0, piece[max_bytes:])
            return piece[:max_bytes]
        if self.silent:
            await anyio.sleep_forever()
        raise anyio.EndOfStream

    async def end(self):
        self.ended = True


def live(stream, hostile):
    return LiveBox(Client(hostile, stream), limits=Limits(output_kb=1), place=Place({}, "python3"), end=hostile.end)


FRAMES = st.builds(
    lambda kind, channel, size, data: wire.HEADER.pack(kind, 0, channel, size) + data,
    st.integers(0, 255),
    st.integers(0, 3),
    st.one_of(st.integers(0, 64), st.integers(0, 2**32 - 1)),
    st.binary(max_size=64),
)
HONEST = st.sampled_from(
    [
        wire.encode(wire.OUT, 1, b"x" * 100),
        wire.encode(wire.EXIT, 1, wire.pack([b"0", b"", b"0", b"0.1", b"2048"])),
        wire.encode(wire.OK, 1),
        wire.encode(wire.END, 1, wire.pack([b"ok"])),
        wire.encode(wire.ENTRY, 1, wire.ENTRY_HEAD.pack(0, 0o644, 1, 5) + b"a"),
        wire.encode(wire.DATA, 1, b"12345"),
    ]
)
PIECES = st.lists(st.one_of(FRAMES, HONEST, st.binary(min_size=1, max_size=200)), max_size=12)


@pytest.mark.parametrize("carrier", ["pipe", "docker"])
@settings(max_examples=150, deadline=None)
@given(pieces=PIECES, cut=st.integers(1, 500), use=st.sampled_from(["exec", "get", "put", "reset"]))
def test_whatever_a_worker_says_costs_its_box_and_no_more(carrier, pieces, cut, use):
    whole = b"".join(pieces)
    if carrier == "docker" and cut % 3:  # two thirds well framed by the engine, one not even that
        whole = b"".join(bytes([1, 0, 0, 0]) + len(piece).to_bytes(4) + piece for piece in pieces if piece)
    hostile = Hostile(whole[at : at + cut] for at in range(0, len(whole), cut))
    box = live(Demultiplexed(hostile) if carrier == "docker" else hostile, hostile)

    async def talk():
        with anyio.fail_after(20):
            try:
                if use == "exec":
                    done = await box.exec(Command(("true",), deadline_s=5))
                    assert len(done.stdout) <= 1024
                elif use == "get":
                    assert sum(len(entry.data) for entry in await box.get("/out", max_bytes=100)) <= 100
                elif use == "put":
                    await box.put([], "/work")
                else:
                    await box.reset()
            except BoxError:
                assert hostile.ended or use != "exec"

    anyio.run(talk)


@pytest.mark.parametrize("carrier", ["pipe", "docker"])
async def test_a_flood_that_never_ends_is_bounded_in_memory(carrier):
    """A frame that announces what it may and never ends; output past its cap; entries without end."""
    endless = wire.HEADER.pack(wire.OUT, 0, 1, wire.MAX_FRAME)
    for flood in (endless + b"x" * 1000, wire.encode(wire.OUT, 1, b"x" * 1000) * 5000, b"\0" * (4 << 20)):
        framed = bytes([1, 0, 0, 0]) + len(flood).to_bytes(4) + flood if carrier == "docker" else flood
        hostile = Hostile([framed])
        stream = Demultiplexed(hostile) if carrier == "docker" else hostile
        box = live(stream, hostile)
        with pytest.raises(InfraError):
            await box.exec(Command(("true",), deadline_s=5))
        assert hostile.ended
        assert box._client._decoder.pending <= wire.MAX_FRAME + wire.HEADER.size


@needs_docker()
async def test_an_engine_that_stops_answering_is_no_verdict(monkeypatch):
    """The worker's own deadline passes unheard: with an engine that does not answer, that is the engine's fault."""
    boxes = DockerBoxes(image())
    await boxes.prepare()
    monkeypatch.setattr("harness.box.live.GRACE_S", 0.2)

    async def away():
        return False

    async with boxes.open(BoxSpec(owner="away")) as box:
        monkeypatch.setattr(box, "_answers", away)
        monkeypatch.setattr(box._client._receive, "receive", lambda most: anyio.sleep_forever())
        with pytest.raises(InfraError, match="does not answer"):
            await box.exec(Command(("python", "-c", "pass"), deadline_s=0.2))
