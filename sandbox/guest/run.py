"""Run one command: start it, watch it, then kill whatever it left behind."""

import os
import resource
import select
import time

from frames import CHUNK, DATA, END, ERR, EXIT, OUT, RELAY, Gone, pack, unpack
from start import start
from sweep import others, sweep
from watch import oom_kills, over

TICK_S = 0.05
FLOOD = 64  # how many times its cap a stream may pass before the command is killed for it


class Sink:
    """One output stream: the first `cap` bytes go to the host, the rest is counted and dropped."""

    def __init__(self, wire, kind, channel, cap):
        self.wire = wire
        self.kind = kind
        self.channel = channel
        self.cap = cap
        self.seen = 0

    def add(self, data):
        room = self.cap - self.seen
        self.seen += len(data)
        if room > 0:
            self.wire.send(self.kind, self.channel, data[:room])


def run(wire, channel, payload, config):
    """Serve one EXEC frame and the DATA frames of its standard input; replies OUT and ERR, then one EXIT."""
    deadline, cap, cwd, count, *rest = unpack(payload)
    argv, pairs = rest[: int(count)], rest[int(count) :]
    environment = dict(zip(pairs[::2], pairs[1::2], strict=True))
    given = _stdin(wire)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    kills = oom_kills()
    pipes = [os.pipe(), os.pipe(), os.pipe()]
    (in_r, in_w), (out_r, out_w), (err_r, err_w) = pipes
    child = start(argv, environment, cwd, (in_r, out_w, err_w), config)
    for end in (in_r, out_w, err_w):
        os.close(end)
    sinks = {out_r: Sink(wire, OUT, channel, int(cap)), err_r: Sink(wire, ERR, channel, int(cap))}
    running = _Running(wire, child, sinks, (in_w, given), config.relay)
    try:
        reason = _watch(running, float(deadline), config)
        statuses, peak = sweep(init=config.init)
        for source, sink in sinks.items():
            _drain(source, sink)
    finally:
        running.close()
        for end in sinks:
            os.close(end)
    if not reason and oom_kills() > kills:
        reason = "memory"
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    dropped = any(sink.seen > sink.cap for sink in sinks.values())
    code = os.waitstatus_to_exitcode(statuses.get(child, 0))
    said = [b"%d" % code, reason.encode(), b"1" if dropped else b"0", b"%.6f" % max(cpu, 0.0), b"%d" % peak]
    wire.send(EXIT, channel, pack(said))


def _stdin(wire):
    given = bytearray()
    while True:
        kind, _, body = wire.next()
        if kind == END:
            return bytes(given)
        if kind == DATA:
            given += body


def _watch(running, deadline_s, config):
    """Until the main child ends or must end; the name of what ended it, empty when it ended by itself."""
    now = time.monotonic()
    deadline, next_tick = now + deadline_s, now + TICK_S
    while True:
        if running.turn(max(0.0, min(deadline, next_tick) - now)):
            return ""
        now = time.monotonic()
        if now >= deadline:
            return "deadline"
        if any(sink.seen > FLOOD * sink.cap for sink in running.sinks.values()):
            return "output"
        if now >= next_tick:
            limit = over(config, others(init=config.init))
            if limit:
                return limit
            next_tick = time.monotonic() + TICK_S


class _Running:
    """The main child, its output pipes and what is still to be fed to it."""

    def __init__(self, wire, child, sinks, fed, relay):
        feed, given = fed
        self.wire = wire
        self._relay = relay
        self.sinks = sinks
        self._feed = feed
        self._given = memoryview(given)
        self._ended = os.pidfd_open(child)
        self._poller = select.poll()
        for source in (self._ended, wire.source, *sinks):
            self._poller.register(source, select.POLLIN)
        for end in (feed, *sinks):
            os.set_blocking(end, False)
        if relay is not None:
            relay.begin(self._poller)
        if given:
            self._poller.register(feed, select.POLLOUT)
        else:
            self._fed()

    def turn(self, wait_s):
        """Move what can be moved within `wait_s` seconds; whether the main child has ended."""
        for source, event in self._poller.poll(wait_s * 1000 + 0.5):
            if source == self._ended:
                return True
            if source == self.wire.source:
                self.wire.fill()
                self._heed()
            elif self._relay is not None and self._relay.owns(source):
                self._relay.turn(source, event)
            elif source == self._feed:
                self._given = _feed(source, self._given)
                if not self._given:
                    self._poller.unregister(source)
                    self._fed()
            elif source in self.sinks and not _pump(source, self.sinks[source]):
                self._poller.unregister(source)
        return False

    def _heed(self):
        """Nothing but model traffic may come while a command runs."""
        while True:
            frame = self.wire.take()
            if frame is None:
                return
            if self._relay is None or frame[0] not in RELAY:
                raise Gone
            self._relay.frame(*frame)

    def _fed(self):
        os.close(self._feed)
        self._feed = -1

    def close(self):
        """Let go of the child, of its standard input and of its connections."""
        if self._relay is not None:
            self._relay.end()
        os.close(self._ended)
        if self._feed >= 0:
            self._fed()


def _feed(sink, given):
    try:
        return given[os.write(sink, given[:CHUNK]) :]
    except BlockingIOError:
        return given
    except BrokenPipeError:
        return given[len(given) :]


def _pump(source, sink):
    try:
        data = os.read(source, CHUNK)
    except BlockingIOError:
        return True
    if data:
        sink.add(data)
    return bool(data)


def _drain(source, sink):
    """Take what is left in a pipe. Every holder is dead, but one that is not must not make us wait."""
    os.set_blocking(source, False)
    while True:
        try:
            data = os.read(source, CHUNK)
        except BlockingIOError:
            return
        if not data or sink.seen > (FLOOD + 1) * sink.cap:
            return
        sink.add(data)
