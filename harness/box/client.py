"""One conversation with a guest worker: a request, its replies, one at a time.

Knows frames and nothing of what carries them or of what a box is. Whatever goes wrong here raises InfraError, and
the owner must then end the box: the wire is out of step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from harness.box import wire
from harness.box.relay import Link, Relay
from harness.errors import InfraError
from harness.tree import Entry

VERSION = b"1"
_BATCH = 1 << 17


@dataclass(slots=True)
class Captured:
    """What a command has written so far; kept by the caller, so a killed command's part is not lost."""

    cap: int
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    truncated: bool = False

    def add(self, frame: wire.Frame) -> None:
        """Append an OUT or ERR frame. Raises InfraError past the cap, which the worker keeps."""
        stream = self.stdout if frame.type == wire.OUT else self.stderr
        if len(stream) + len(frame.payload) > self.cap:
            raise InfraError("the box's worker sent more output than its cap")
        stream += frame.payload


@dataclass(frozen=True, slots=True)
class Ended:
    """How the worker says a command ended. `reason` is empty, "deadline", or the name of the limit it hit."""

    exit_code: int
    reason: str
    cpu_s: float
    memory_mb: float | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One command, with every path already the worker's."""

    argv: Sequence[bytes]
    env: Mapping[bytes, bytes]
    cwd: bytes
    stdin: bytes
    deadline_s: float


class GuestError(Exception):
    """The worker could not do what was asked, and the wire is still in step."""

    def __init__(self, errno: int, text: str) -> None:
        super().__init__(text)
        self.errno = errno


class Client:
    """Speaks to one worker."""

    def __init__(self, send: ByteSendStream, receive: ByteReceiveStream) -> None:
        self._send = send
        self._receive = receive
        self._relay: Relay | None = None
        self._sending = anyio.Lock()
        self._decoder = wire.Decoder()
        self._frames: list[wire.Frame] = []
        self._channel = 0

    async def greet(self, *, hardened: bool) -> None:
        """Wait for the worker's hello. `hardened` insists that it is unreadable to the code it will run."""
        frame = await self._next(wire.HELLO)
        version, _, unreadable = wire.unpack(frame.payload, 3)
        if version != VERSION:
            raise InfraError(f"the box's worker speaks version {version[:20]!r}, not {VERSION!r}")
        if hardened and unreadable != b"1":
            raise InfraError("the worker could not make itself unreadable (prctl PR_SET_DUMPABLE)")

    async def configure(self, values: Mapping[str, bytes]) -> None:
        """Tell the worker what its box is (see the guest's Config)."""
        fields = [part for key, value in values.items() for part in (key.encode(), value)]
        await self._write(wire.encode(wire.CONFIG, self._open(), wire.pack(fields)))
        await self._acknowledged()

    async def ping(self, payload: bytes = b"") -> None:
        """One echo."""
        await self._write(wire.encode(wire.PING, self._open(), payload))
        if (await self._next(wire.OK)).payload != payload:
            raise InfraError("the box's worker answered another ping")

    async def listen(self, link: Link) -> int:
        """Offer what `link` connects to on loopback in the box, while commands run; the port it is offered on."""
        await self._write(wire.encode(wire.LISTEN, self._open()))
        port = int(wire.number((await self._acknowledged()).payload, 1, 0xFFFF))
        self._relay = Relay(link, self._write)
        return port

    async def exec(self, request: Request, captured: Captured) -> Ended:
        """Run one command to its end, adding to `captured` as output arrives."""
        if self._relay is None:
            return await self._exec(request, captured)
        return await self._relay.during(self._exec(request, captured))

    async def _exec(self, request: Request, captured: Captured) -> Ended:
        channel = self._open()
        pairs = [part for pair in request.env.items() for part in pair]
        head = [b"%.6f" % request.deadline_s, b"%d" % captured.cap, request.cwd, b"%d" % len(request.argv)]
        parts = [wire.encode(wire.EXEC, channel, wire.pack([*head, *request.argv, *pairs]))]
        data = request.stdin
        parts += [wire.encode(wire.DATA, channel, data[at : at + wire.CHUNK]) for at in range(0, len(data), wire.CHUNK)]
        parts.append(wire.encode(wire.END, channel))
        await self._write(b"".join(parts))
        while True:
            frame = await self._next(wire.OUT, wire.ERR, wire.EXIT)
            if frame.type != wire.EXIT:
                captured.add(frame)
                continue
            code, reason, dropped, cpu, peak = wire.unpack(frame.payload, 5)
            captured.truncated = dropped == b"1"
            memory_mb = wire.number(peak, 0, 1e12) / 1024
            return Ended(int(wire.number(code, -256, 255)), _reason(reason), wire.number(cpu, 0, 1e9), memory_mb)

    async def put(self, entries: Iterable[Entry], at: bytes, *, read_only: bool) -> None:
        """Write entries below `at`. Raises GuestError with the errno, ValueError for entries that may not go in."""
        channel = self._open()
        entries = [wire.checked_entry(entry) for entry in entries]
        await self._write(wire.encode(wire.PUT, channel, wire.pack([at, b"1" if read_only else b"0"])))
        batch = bytearray()
        for part in wire.encode_entries(entries, channel):
            batch += part
            if len(batch) >= _BATCH:
                await self._write(bytes(batch))
                batch.clear()
        await self._write(bytes(batch) + wire.encode(wire.END, channel))
        await self._acknowledged()

    async def get(self, at: bytes, *, max_bytes: int, max_entries: int) -> list[Entry] | None:
        """Everything below `at`, or None when it holds more than was asked for."""
        fields = [at, b"%d" % max_bytes, b"%d" % max_entries]
        await self._write(wire.encode(wire.GET, self._open(), wire.pack(fields)))
        reader = wire.EntryReader(max_bytes, max_entries)
        while True:
            frame = await self._next(wire.ENTRY, wire.DATA, wire.END)
            if frame.type != wire.END:
                reader.feed(frame)
                continue
            (status,) = wire.unpack(frame.payload, 1)
            if status == b"over":
                return None
            if status != b"ok":
                raise InfraError(f"the box's worker could not read a folder: {status[:200]!r}")
            return reader.done()

    async def reset(self) -> None:
        """Kill everything but the worker and empty every writable place."""
        self._relay = None
        await self._write(wire.encode(wire.RESET, self._open()))
        await self._acknowledged()

    def _open(self) -> int:
        self._channel = self._channel % 0xFFFF + 1
        return self._channel

    async def _acknowledged(self) -> wire.Frame:
        frame = await self._next(wire.OK, wire.FAIL)
        if frame.type == wire.FAIL:
            errno, text = wire.unpack(frame.payload, 2)
            raise GuestError(int(wire.number(errno, 0, 4096)), text[:500].decode(errors="backslashreplace"))
        return frame

    async def _write(self, data: bytes) -> None:
        try:
            async with self._sending:
                await self._send.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            raise InfraError("the box ended while it was spoken to") from None

    async def _next(self, *expected: int) -> wire.Frame:
        while True:
            while not self._frames:
                try:
                    data = await self._receive.receive(wire.MAX_FRAME)
                except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                    raise InfraError("the box ended without an answer") from None
                self._frames = list(self._decoder.feed(data))
                self._frames.reverse()
            frame = self._frames.pop()
            if frame.type in wire.RELAY and self._relay is not None:
                self._relay.take(frame)
                continue
            if frame.type not in expected or (frame.channel != self._channel and frame.type != wire.HELLO):
                raise InfraError(f"the box's worker answered out of turn (frame type {frame.type})")
            return frame


def _reason(field: bytes) -> str:
    known = ("", "deadline", "output", "memory", "pids", "disk")
    reason = field.decode("ascii", "replace")
    if reason not in known:
        raise InfraError("the box's worker named an unknown limit")
    return reason
