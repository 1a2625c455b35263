"""Kill everything but the worker, and reap it."""

import _signal as signal  # the C module: signal.py costs 2 ms of enum a box
import os

from frames import ignoring


def sweep(*, init):
    """Kill until no child is left; ({pid: status} of what was reaped, the most KiB one of them ever held).

    As PID 1, kill(-1) reaches everything in the namespace and orphans come to us. Elsewhere we are the subreaper,
    so the descendants in /proc are the same set.
    """
    statuses = {}
    peak = 0
    while True:
        if init:
            with ignoring(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        else:
            for pid in descendants(os.getpid()):
                with ignoring(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        try:
            pid, status, used = os.wait4(-1, 0)
            while pid:
                statuses[pid] = status
                peak = max(peak, used.ru_maxrss)
                pid, status, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return statuses, peak


def remembered():
    """How many connections the kernel keeps although no process is left: TIME_WAIT holds a port for a minute, and
    nothing without privileges ends it."""
    told = counts()
    if "TCP tw" in told:
        return told["TCP inuse"] + told["TCP tw"] + told.get("TCP6 inuse", 0)
    count = 0
    for name in ("tcp", "tcp6"):
        with ignoring(FileNotFoundError), open(f"/proc/net/{name}", "rb") as table:
            count += sum(1 for _ in table) - 1
    return count


def counts():
    """{"TCP inuse": 0, ...} of this network namespace; empty where the kernel does not count."""
    found = {}
    for name in ("sockstat", "sockstat6"):
        with ignoring(OSError), open(f"/proc/net/{name}", "rb") as table:
            for line in table:
                kind, *words = line.decode().split()
                for at in range(0, len(words) - 1, 2):
                    found[f"{kind[:-1]} {words[at]}"] = int(words[at + 1])
    return found


def descendants(root):
    """Pids below `root`, parents first."""
    found = []
    queue = [root]
    while queue:
        parent = queue.pop()
        try:
            threads = os.listdir(f"/proc/{parent}/task")
        except OSError:
            continue
        for thread in threads:
            try:
                with open(f"/proc/{parent}/task/{thread}/children", "rb") as file:
                    children = [int(pid) for pid in file.read().split()]
            except OSError:
                continue
            found += children
            queue += children
    return found


def others(*, init):
    """Every pid in the box but the worker's."""
    if init:
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]
    return descendants(os.getpid())
