"""The wire, guest side: frames of (type u8, pad, channel u16, length u32, payload) over two descriptors."""

import os
import struct

HEADER = struct.Struct("!BxHI")
ENTRY_HEAD = struct.Struct("!BHIQ")
LENGTH = struct.Struct("!I")
MAX_FRAME = 1 << 18
CHUNK = 1 << 16

HELLO, CONFIG, PING, OK, FAIL = 1, 2, 3, 4, 5
PUT, GET, EXEC, RESET = 8, 9, 10, 11
ENTRY, DATA, END = 16, 17, 18
OUT, ERR, EXIT = 24, 25, 26
RELAY = range(32, 48)  # model traffic; see relay.py

KINDS = ("file", "dir", "symlink", "hardlink", "fifo", "socket", "device", "unknown")


class Gone(Exception):  # noqa: N818 - not an error: the usual end
    """The host closed the wire: nothing is left to live for."""


class Become(BaseException):
    """In a fork of a warm worker: leave the worker, and be this command."""

    def __init__(self, argv):
        super().__init__()
        self.argv = argv


class ignoring:  # noqa: N801 - reads as a verb
    """contextlib.suppress, whose import costs 3 ms a box."""

    def __init__(self, *kinds):
        self.kinds = kinds

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        return kind is not None and issubclass(kind, self.kinds)


def pack(items):
    """A list of byte strings as one payload."""
    return b"".join(LENGTH.pack(len(item)) + item for item in items)


def unpack(payload):
    """The list that `pack` took."""
    items, at = [], 0
    while at < len(payload):
        (size,) = LENGTH.unpack_from(payload, at)
        items.append(payload[at + 4 : at + 4 + size])
        at += 4 + size
    return items


class Wire:
    """Reads requests, writes replies. Small replies wait for `flush`, so that a listing is few writes."""

    def __init__(self, source, sink):
        self.source = source
        self.sink = sink
        self._in = bytearray()
        self._out = bytearray()

    def fill(self):
        """Read what is there, blocking for at least one byte."""
        data = os.read(self.source, MAX_FRAME)
        if not data:
            raise Gone
        self._in += data

    def take(self):
        """One whole frame if it has arrived, else None."""
        if len(self._in) < HEADER.size:
            return None
        kind, channel, size = HEADER.unpack_from(self._in)
        whole = HEADER.size + size
        if len(self._in) < whole:
            return None
        payload = bytes(self._in[HEADER.size : whole])
        del self._in[:whole]
        return kind, channel, payload

    def next(self):
        """The next frame, waiting for it."""
        while True:
            frame = self.take()
            if frame is not None:
                return frame
            self.fill()

    def put(self, kind, channel, payload=b""):
        """Queue one frame."""
        self._out += HEADER.pack(kind, channel, len(payload))
        self._out += payload
        if len(self._out) >= MAX_FRAME:
            self.flush()

    def send(self, kind, channel, payload=b""):
        """Queue one frame and write everything queued."""
        self.put(kind, channel, payload)
        self.flush()

    def flush(self):
        """Write everything queued."""
        view = memoryview(bytes(self._out))
        self._out.clear()
        while view:
            try:
                view = view[os.write(self.sink, view) :]
            except BrokenPipeError:
                raise Gone from None
