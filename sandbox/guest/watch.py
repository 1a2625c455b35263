"""The polling watchdog: what a program holds, for machines where no cgroup can be had.

Counted: resident memory and page tables of every process, shared anonymous mappings at their full size (they stay when
no page is mapped), what lies in the box's tmpfs and what its sockets and pipes hold. A process that made itself
unreadable is counted at its virtual size.
"""

import os

import fifos
from sockets import Sockets

PAGE = os.sysconf("SC_PAGE_SIZE")
INODE_BYTES = 4096  # one name may stand for this much of the disk limit


def oom_kills():
    """How many processes the kernel has killed here for memory, where the box sees its own control group; else 0."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            with open(path, "rb") as file:
                for line in file:
                    if line.startswith(b"oom_kill "):
                        return int(line.split()[1])
        except OSError:
            continue
    return 0


def over(config, pids):
    """The name of the limit that is passed now, or an empty string."""
    disk, names = tmpfs(config)
    if config.disk and names > 1024 + config.disk // INODE_BYTES:
        return "disk"
    if config.watch_pids and len(pids) > config.pids:
        return "pids"
    if config.watch_memory:
        rough, shared, slots = 0, {}, {}
        apart = disk + _in_sockets(config)
        for pid in pids:
            rough += _resident(pid, shared)
            tables, slots[pid] = _status(pid)
            apart += tables
        apart += sum(shared.values())
        if rough + apart + sum(slots.values()) * fifos.ROOM <= config.memory:
            return ""  # not even if every file were a full pipe; to look at each takes time
        apart += fifos.held(pids, slots)
        if rough + apart > config.memory and _exact(pids) + apart > config.memory:
            return "memory"
    return ""


def tmpfs(config):
    """(bytes used, most names in one) over the writable places, when they are tmpfs."""
    used, names = 0, 0
    if not config.disk:
        return 0, 0
    for place in config.places:
        stat = os.statvfs(place)
        used += (stat.f_blocks - stat.f_bfree) * stat.f_frsize
        names = max(names, stat.f_files - stat.f_ffree)
    return used, names


def _resident(pid, shared):
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            size, resident = (int(word) * PAGE for word in file.read().split()[:2])
    except (OSError, ValueError):
        return 0
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            maps = file.read()
    except PermissionError:
        return size
    except OSError:
        return resident
    if b"/dev/zero (deleted)" in maps:
        for line in maps.split(b"\n"):
            if line.endswith(b"/dev/zero (deleted)"):
                span, _, _, _, inode = line.split()[:5]
                low, high = span.split(b"-")
                shared[inode] = max(shared.get(inode, 0), int(high, 16) - int(low, 16))
    return resident


def _status(pid):
    """(bytes of page tables, how many files its table has room for); a page that was only read costs its process
    nothing but its table."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            told = file.read()
    except OSError:
        return 0, 0
    return _number(told, b"\nVmPTE:") * 1024, _number(told, b"\nFDSize:")


def _number(told, name):
    found = told.partition(name)[2].split(maxsplit=1)
    return int(found[0]) if found else 0


def _in_sockets(config):
    """Bytes; 0 where the network is the host's."""
    if not config.init:
        return 0
    if config.sockets is None:
        config.sockets = Sockets()
    return config.sockets.held()


def _exact(pids):
    """Proportional anonymous memory: pages that forks share are counted once."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                for line in file:
                    if line.startswith(b"Pss_Anon:"):
                        total += int(line.split()[1]) * 1024
                        break
        except OSError:
            total += _resident(pid, {})
    return total
