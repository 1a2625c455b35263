"""The client against workers that lie."""

from itertools import chain, repeat

import anyio
import anyio.lowlevel
import pytest

from harness.box import wire
from harness.box.base import Command
from harness.box.client import Client
from harness.box.live import LiveBox, Place
from harness.errors import BoxClosedError, ExecTimeoutError, InfraError, LimitError
from harness.limits import Limits

EXIT = wire.encode(wire.EXIT, 1, wire.pack([b"0", b"", b"0", b"0.01", b"2048"]))


class Liar:
    """A stream pair that answers anything with `replies`, then ends, or never ends when `silent`."""

    def __init__(self, *replies, silent=False):
        self.replies = list(replies)
        self.silent = silent
        self.ended = 0

    async def send(self, data):
        await anyio.lowlevel.checkpoint()

    async def receive(self, max_bytes=65536):
        if self.replies:
            await anyio.lowlevel.checkpoint()
            return self.replies.pop(0)
        if self.silent:
            await anyio.sleep_forever()
        raise anyio.EndOfStream

    async def end(self):
        self.ended += 1

    def box(self, oom_kills=lambda: 0):
        return LiveBox(
            Client(self, self),
            limits=Limits(output_kb=1),
            place=Place({}, "/usr/bin/python3"),
            end=self.end,
            oom_kills=oom_kills,
        )


COMMAND = Command(("true",), deadline_s=0.05)


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n\r\n",
        wire.encode(wire.OUT, 1, b"x" * 2000),
        wire.encode(wire.OUT, 2, b"x") + EXIT,
        wire.encode(wire.OK, 1),
        wire.encode(wire.EXIT, 1, b"junk"),
        wire.encode(wire.EXIT, 1, wire.pack([b"nan", b"", b"0", b"1", b"2048"])),
        wire.encode(wire.EXIT, 1, wire.pack([b"0", b"gravity", b"0", b"1", b"2048"])),
        wire.encode(wire.EXIT, 1, wire.pack([b"0", b"", b"0", b"-1", b"2048"])),
        wire.encode(wire.EXIT, 1, wire.pack([b"0", b"", b"0", b"inf", b"2048"])),
        wire.encode(wire.EXIT, 1, wire.pack([b"0", b"", b"0", b"1", b"nan"])),
        wire.encode(wire.EXIT, 1, wire.pack([b"0", b"", b"0", b"1"])),
        wire.encode(wire.EXIT, 1, wire.pack([b"99999999999999", b"", b"0", b"1", b"2048"])),
        wire.encode(33, 1, b"relay"),
    ],
)
async def test_a_lie_costs_the_box_its_life(reply):
    liar = Liar(reply) if reply else Liar()
    box = liar.box()
    with pytest.raises(InfraError):
        await box.exec(COMMAND)
    assert liar.ended
    with pytest.raises(BoxClosedError):
        await box.exec(COMMAND)


async def test_an_honest_answer_is_believed():
    done = await Liar(wire.encode(wire.OUT, 1, b"hi") + EXIT).box().exec(COMMAND)
    assert (done.exit_code, done.stdout, done.cpu_s) == (0, b"hi", 0.01)


async def test_silence_past_the_deadline_is_a_timeout_with_what_was_said(monkeypatch):
    monkeypatch.setattr("harness.box.live.GRACE_S", 0.01)
    liar = Liar(wire.encode(wire.ERR, 1, b"so far"), silent=True)
    with pytest.raises(ExecTimeoutError) as caught:
        await liar.box().exec(COMMAND)
    assert caught.value.partial.stderr == b"so far"
    assert liar.ended


async def test_silence_for_files_is_an_infra_error(monkeypatch):
    monkeypatch.setattr("harness.box.live.FILES_S", 0.01)
    liar = Liar(silent=True)
    with pytest.raises(InfraError, match="did not answer"):
        await liar.box().get("/out", max_bytes=10)
    assert liar.ended


async def test_a_worker_the_kernel_killed_for_memory_is_a_limit():
    kills = chain([0], repeat(1))
    with pytest.raises(LimitError, match="memory"):
        await Liar().box(lambda: next(kills)).exec(COMMAND)


async def test_more_entries_than_asked_for_cost_the_box_its_life():
    entry = wire.encode(wire.ENTRY, 1, wire.ENTRY_HEAD.pack(0, 0o644, 1, 0) + b"f")
    liar = Liar(*[entry] * 3, silent=True)
    with pytest.raises(InfraError):
        await liar.box().get("/out", max_bytes=10, max_entries=2)
    assert liar.ended


async def test_model_traffic_nobody_asked_for_is_out_of_turn():
    liar = Liar(wire.encode(wire.OPENED, 9) + wire.encode(wire.OK, 1, b"x"))
    with pytest.raises(InfraError, match="out of turn"):
        await Client(liar, liar).ping(b"x")


@pytest.mark.parametrize(
    "frames",
    [
        [(wire.OPENED, b""), (wire.OPENED, b"")],
        [(wire.OPENED, b""), *[(wire.BYTES, bytes(1 << 17))] * 3],
        [(wire.OPENED, b""), (wire.CREDIT, b"123")],
        [(wire.OPENED, b""), (wire.LISTEN, b"")],
    ],
)
async def test_a_worker_that_lies_about_connections_is_left(frames):
    from harness.box.relay import Relay

    async def nowhere(data=None):
        await anyio.sleep_forever()

    relay = Relay(type("Link", (), {"connect": staticmethod(nowhere)})(), nowhere)

    async def work():
        for kind, payload in frames:
            relay.take(wire.Frame(kind, 9, payload))

    with pytest.raises(InfraError), anyio.fail_after(5):
        await relay.during(work())


async def test_frames_of_a_connection_that_is_gone_are_nothing():
    from harness.box.relay import Relay

    for kind in (wire.BYTES, wire.SHUT, wire.CLOSED, wire.CREDIT):
        Relay(None, None).take(wire.Frame(kind, 9, b"data"))
