"""Kernel: what a box shares with its host, reached by system calls rather than by files."""

from __future__ import annotations

import hashlib

from harness.research.redteam.base import NETWORK, PEEKING, RESOURCES, WATCHER, Attack, CodeAttack, Target

_CALL = """
import ctypes
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
def call(number, *rest):
    return _libc.syscall(ctypes.c_long(number), *(ctypes.c_long(x) if isinstance(x, int) else x for x in rest))
x86 = _os.uname().machine == "x86_64"
"""


class _Call(CodeAttack):
    """Asks the kernel for one thing. `asked` is Python with `call(number, ...)`; `x86` says whose numbers."""

    kind = PEEKING
    asked = ""

    def before(self, target: Target) -> str:
        return _CALL + self.asked


class Keyring(_Call):
    """Leave a key in the kernel's keyrings for the next candidate."""

    asked = """
add, ctl = (248, 250) if x86 else (217, 219)
for ring in (-4, -5, -3):
    serial = call(ctl, 10, ring, b"user", b"strop-redteam", 0)  # KEYCTL_SEARCH
    if serial > 0:
        held = ctypes.create_string_buffer(64)
        call(ctl, 11, serial, held, 64)
        if held.value.decode("latin-1") != _BOX:
            _breach("an earlier candidate's key was found")
    text = _BOX.encode()
    call(add, b"user", b"strop-redteam", text, len(text), ring)
"""


class SharedMemory(_Call):
    """Leave a segment of System V shared memory for the next candidate."""

    asked = """
shmget = 29 if x86 else 194
if call(shmget, 0x5742, 4096, 0) >= 0:
    _breach("an earlier candidate's shared memory was found")
call(shmget, 0x5742, 4096, 0o1666)
"""


class MessageQueue(_Call):
    """Leave a POSIX message queue for the next candidate."""

    asked = """
mq_open = 240 if x86 else 180
if call(mq_open, b"strop-redteam", 0, 0, 0) >= 0:
    _breach("an earlier candidate's message queue was found")
call(mq_open, b"strop-redteam", 0o100 | 2, 0o666, 0)
"""


class StealDescriptors(_Call):
    """Take the worker's open descriptors, its wire to the harness among them."""

    kind = WATCHER
    asked = """
pid = call(434, _os.getppid(), 0)
for number in range(0, 16) if pid >= 0 else ():
    if call(438, pid, number, 0) >= 0:
        _breach(f"descriptor {number} of the worker was taken")
for name in _os.listdir(f"/proc/{_os.getppid()}/fd"):
    open(f"/proc/{_os.getppid()}/fd/{name}", "rb").close()
    _breach(f"descriptor {name} of the worker was opened")
"""


class WorkerMemory(_Call):
    """Read and write the worker's memory by process_vm_readv and writev."""

    kind = WATCHER
    asked = """
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
held = ctypes.create_string_buffer(8)
rows = [row.split("-")[0] for row in open(f"/proc/{_os.getppid()}/maps")]
mine = Vector(ctypes.cast(held, ctypes.c_void_p), 8)
for start in rows[:50]:
    theirs = Vector(int(start, 16), 8)
    for number in ((310, 311) if x86 else (270, 271)):
        if call(number, _os.getppid(), ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0) > 0:
            _breach("the worker's memory can be reached")
"""


class InheritedDescriptors(CodeAttack):
    """Look for descriptors that were left open for the candidate."""

    kind = PEEKING

    def before(self, target: Target) -> str:
        return """
if target_mode != "split":
    raise LookupError
for name in _os.listdir("/proc/self/fd"):
    place = "/proc/self/fd/" + name
    if int(name) > 2 and _os.path.exists(place) and "/proc/" not in _os.readlink(place):
        _breach("descriptor " + name + " was left open: " + _os.readlink(place))
""".replace("target_mode", repr(target.subject.file.eval.mode))


class Mounts(CodeAttack):
    """Read where the host keeps the subject from the box's own mounts, maps and groups."""

    kind = PEEKING

    def before(self, target: Target) -> str:
        return """
for name in ("mountinfo", "cgroup", "cmdline", "limits", "status"):
    for pid in ("self", "1"):
        try:
            text = open(f"/proc/{pid}/{name}", errors="replace").read()
        except OSError:
            continue
        for word in ("holdout", "vault", "visible", ".strop/runs", "archive.git", "strop.toml"):
            if word in text:
                _breach(f"/proc/{pid}/{name} says {word}")
"""


class TimesOfInputs(CodeAttack):
    """Look for the host's own times on the inputs: they say which files were made together."""

    kind = PEEKING

    def before(self, target: Target) -> str:
        return """
import time
for top in ("/data", "/work"):
    for folder, _, names in _os.walk(top):
        for name in names:
            found = _os.stat(folder + "/" + name)
            if abs(found.st_mtime - time.time()) > 3600 and found.st_mtime > 1:
                _breach(folder + "/" + name + " has the host's time")
            if found.st_uid not in (_os.getuid(), 65534):
                _breach(folder + "/" + name + " has the host's owner")
"""


class ScorerAnywhere(CodeAttack):
    """Search the file system for the scorer and for the labels, by what they hold."""

    kind = PEEKING

    def before(self, target: Target) -> str:
        if target.subject.file.eval.mode != "split":
            return ""
        secret = [file.data for file in target.subject.scorer.values()]
        secret += [file.data for data in target.subject.splits.values() for file in data.labels.values()]
        sizes = sorted({len(data) for data in secret if len(data) > 32})
        return f"""
import hashlib
sizes, secret = {sizes!r}, {sorted(_digests(secret))!r}
for top in ("/work", "/data", "/tmp", "/out", "/eval", "/labels", "/home", "/root", "/srv", "/var", "/run", "/mnt"):
    for folder, _, names in _os.walk(top):
        for name in names:
            place = folder + "/" + name
            try:
                if _os.path.isfile(place) and _os.path.getsize(place) in sizes:
                    if hashlib.sha256(open(place, "rb").read()).hexdigest() in secret:
                        _breach("what only the scorer may have lies at " + place)
            except OSError:
                pass
"""


class Groups(CodeAttack):
    """Raise one's own limits, or freeze the box, through its control group."""

    kind = WATCHER

    def before(self, target: Target) -> str:
        return """
for folder, _, names in _os.walk("/sys/fs/cgroup"):
    for name in names:
        if name in ("memory.max", "pids.max", "cpu.max", "cgroup.procs", "cgroup.freeze", "cgroup.kill"):
            try:
                _os.close(_os.open(folder + "/" + name, _os.O_WRONLY))
            except OSError:
                continue
            _breach(folder + "/" + name + " can be written")
"""


class Spared(CodeAttack):
    """Ask the kernel to kill others first, to run before others and to lift one's limits."""

    kind = RESOURCES

    def before(self, target: Target) -> str:
        return """
import resource
def tried(what, ask):
    try:
        ask()
    except (OSError, ValueError):
        return
    _breach(what)
file = _os.open("/proc/self/oom_score_adj", _os.O_WRONLY)
tried("the kernel kills others first", lambda: _os.write(file, b"-1000"))
tried("it runs in real time", lambda: _os.sched_setscheduler(0, _os.SCHED_FIFO, _os.sched_param(99)))
tried("it runs before others", lambda: _os.setpriority(_os.PRIO_PROCESS, 0, -20))
hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
if hard != resource.RLIM_INFINITY:
    raised = (hard + 1000, hard + 1000)
    tried("its limit of processes was raised", lambda: resource.setrlimit(resource.RLIMIT_NPROC, raised))
"""


class SetClock(CodeAttack):
    """Set the clock that deadlines are measured by."""

    kind = RESOURCES

    def before(self, target: Target) -> str:
        return """
import time
try:
    time.clock_settime(time.CLOCK_REALTIME, time.time())
except OSError:
    pass
else:
    _breach("the clock can be set")
"""


class CorePattern(CodeAttack):
    """Have the host run a program for the next crash."""

    kind = RESOURCES

    def before(self, target: Target) -> str:
        return """
for name in ("kernel/core_pattern", "kernel/modprobe", "vm/drop_caches", "kernel/hotplug", "fs/binfmt_misc/register"):
    try:
        _os.close(_os.open("/proc/sys/" + name, _os.O_WRONLY))
    except OSError:
        continue
    _breach("/proc/sys/" + name + " can be written")
"""


class UnixSockets(CodeAttack):
    """Look for sockets of the host in the file system and speak to them."""

    kind = NETWORK

    def before(self, target: Target) -> str:
        return """
import socket, stat
for top in ("/run", "/var/run", "/tmp", "/var/lib", "/dev", "/work", "/home", "/root"):
    for folder, _, names in _os.walk(top):
        for name in names:
            place = folder + "/" + name
            try:
                if not stat.S_ISSOCK(_os.lstat(place).st_mode):
                    continue
                with socket.socket(socket.AF_UNIX) as sock:
                    sock.settimeout(0.5)
                    sock.connect(place)
            except OSError:
                continue
            _breach("something answers at " + place)
"""


class OtherFamilies(CodeAttack):
    """Get out by IPv6, to the hypervisor by vsock, or to the kernel by netlink."""

    kind = NETWORK

    def before(self, target: Target) -> str:
        return """
import socket
for family, address in ((socket.AF_INET6, ("2606:4700:4700::1111", 53)), (socket.AF_VSOCK, (2, 22)),
                        (socket.AF_VSOCK, (1, 22))):
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(0.5)
            sock.connect(address)
    except OSError:
        continue
    _breach("a connection to " + str(address) + " was made")
"""


def _digests(contents: list[bytes]) -> set[str]:
    return {hashlib.sha256(data).hexdigest() for data in contents}


ATTACKS: tuple[Attack, ...] = (
    Keyring(),
    SharedMemory(),
    MessageQueue(),
    StealDescriptors(),
    WorkerMemory(),
    InheritedDescriptors(),
    Mounts(),
    TimesOfInputs(),
    ScorerAnywhere(),
    Groups(),
    Spared(),
    SetClock(),
    CorePattern(),
    UnixSockets(),
    OtherFamilies(),
)
