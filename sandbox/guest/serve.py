"""The guest's loop: one request at a time, from the host's wire, until the wire closes.

PID 1 of the box when it can be. Never dumpable, so code of the same uid in the box can read neither its memory nor
its environment nor its descriptors. Ignores every signal the box can send.
"""

import _signal as signal  # the C module: signal.py costs 2 ms of enum a box
import fcntl
import os
import sys

from files import fresh, get, put, wipe
from frames import (
    CONFIG,
    EXEC,
    FAIL,
    GET,
    HELLO,
    OK,
    PING,
    PUT,
    RELAY,
    RESET,
    Become,
    Gone,
    Wire,
    ignoring,
    pack,
    unpack,
)
from run import run
from start import settle
from sweep import remembered, sweep

VERSION = b"1"
BOUND = "bound"  # as an argument: die with the parent, which has one thread
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36


class Config:
    """What the host said this box is: its writable places, what must survive a wipe, and its limits in bytes."""

    def __init__(self, fields, *, init, oom):
        values = dict(zip(fields[::2], fields[1::2], strict=True))
        self.init = init
        self.places = [place for place in values[b"places"].split(b"\0") if place]
        self.keep = {path for path in values[b"keep"].split(b"\0") if path}
        self.memory = int(values[b"memory"])
        self.disk = int(values[b"disk"])
        self.pids = int(values[b"pids"])
        self.open_files = int(values[b"open_files"])
        self.nproc = int(values[b"nproc"])
        self.watch_memory = values[b"watch_memory"] == b"1"
        self.watch_pids = values[b"watch_pids"] == b"1"
        self.modes = fresh(self.places, self.keep)
        self.relay = None
        self.sockets = None
        self.warm = None
        self.spawns = False
        self._oom = oom

    def arm(self):
        """Let a child forked now be the kernel's first choice when memory runs out, not the worker."""
        self._score(b"1000")

    def disarm(self):
        """Take our own score back down."""
        self._score(b"0")

    def _score(self, value):
        if self._oom >= 0:
            with ignoring(OSError):
                os.pwrite(self._oom, value, 0)


def main():
    """Serve until the host is gone, then take everything along. Returns in a fork alone: the words of the
    command that it is to be.
    """
    init = os.getpid() == 1
    wire, trouble = _own_descriptors()
    oom = _oom_score()
    hardened = _harden(init=init)
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_DFL if init else signal.SIG_IGN)
    try:
        wire.send(HELLO, 0, pack([VERSION, b"%d" % os.getpid(), b"1" if hardened else b"0"]))
        _serve(wire, init=init, oom=oom)
    except Become as command:
        return command.argv
    except Gone:
        pass
    except BaseException as error:
        with ignoring(OSError):
            os.write(trouble, f"worker: {type(error).__name__}: {error}\n".encode()[:2000])
    if not init:
        sweep(init=False)
    os._exit(0)


def _serve(wire, *, init, oom):
    config = None
    while True:
        kind, channel, payload = wire.next()
        if kind == CONFIG:
            config = _configured(wire, channel, payload, init=init, oom=oom)
        elif kind == PING:
            wire.send(OK, channel, payload)
        elif config is None:
            wire.send(FAIL, channel, pack([b"0", b"not configured"]))
        elif kind == EXEC:
            run(wire, channel, payload, config)
        elif kind == PUT:
            put(wire, channel, payload)
        elif kind == GET:
            get(wire, channel, payload, config.keep)
        elif kind == RESET:
            _unlisten(config)
            _reset(wire, channel, config)
        elif kind == RELAY[0]:
            _listen(wire, channel, config)
        elif kind in RELAY:
            pass  # of a connection that ended with its command
        else:
            wire.send(FAIL, channel, pack([b"0", b"unknown request"]))


def _configured(wire, channel, payload, *, init, oom):
    """The box as the host says it is; None when a module that it declares cannot be imported."""
    fields = unpack(payload)
    config = Config(fields, init=init, oom=oom)
    warm = dict(zip(fields[::2], fields[1::2], strict=True)).get(b"warm", b"")
    if warm:
        from warm import Warm  # only where it is asked for

        python, *modules = warm.split(b"\0")
        try:
            config.warm = Warm(python, [name.decode() for name in modules], _prctl())
        except BaseException as error:
            wire.send(FAIL, channel, pack([b"0", f"cannot import: {type(error).__name__}: {error}".encode()[:1000]]))
            return None
    config.spawns = settle(config)
    wire.send(OK, channel)
    return config


def _listen(wire, channel, config):
    from relay import Relay  # its socket module costs every box that needs no models

    _unlisten(config)
    try:
        config.relay = Relay(wire, config.open_files)
    except OSError as error:
        wire.send(FAIL, channel, pack([b"%d" % (error.errno or 0), str(error).encode()]))
    else:
        wire.send(OK, channel, b"%d" % config.relay.port)


def _unlisten(config):
    if config.relay is not None:
        config.relay.close()
        config.relay = None


def _reset(wire, channel, config):
    sweep(init=config.init)
    try:
        for place in config.places:
            wipe(place, config.keep, config.modes)
        left = remembered() if config.init else 0  # elsewhere the network is the machine's
    except OSError as error:
        wire.send(FAIL, channel, pack([b"%d" % (error.errno or 0), str(error).encode()]))
        return
    if left:
        wire.send(FAIL, channel, pack([b"0", b"the kernel remembers %d of its connections" % left]))
    else:
        wire.send(OK, channel)


def _own_descriptors():
    """Move the wire away from 0 and 1, where children would find it, and leave /dev/null there."""
    source = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 10)
    sink = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 10)
    trouble = fcntl.fcntl(2, fcntl.F_DUPFD_CLOEXEC, 10)
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.close(null)
    return Wire(source, sink), trouble


def _oom_score():
    """Opened while we are still dumpable; afterwards the file is root's."""
    try:
        return os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    except OSError:
        return -1


def _harden(*, init):
    prctl = _prctl()
    if prctl is None:
        return False
    if init and BOUND in sys.argv:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # the monitor's; what holds the wire is noticed by its end
    if not init:
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0


def _prctl():
    try:
        import ctypes

        return ctypes.CDLL(None).prctl
    except (ImportError, OSError):
        return None


if __name__ == "__main__":
    sys.exit("start worker.py instead")
