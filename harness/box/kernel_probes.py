"""What a box's kernel must refuse, as programs run inside one; see `harness.box.probes`."""

from __future__ import annotations

TRY = """
import ctypes, errno, os, sys, json
libc = ctypes.CDLL(None, use_errno=True)
def refused(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(number, *arguments)
    return result == -1 and ctypes.get_errno() in (errno.EPERM, errno.ENOSYS)
def verdict(found):
    print("; ".join(found) or "refused")
    sys.exit(1 if found else 0)
"""

_CALLS = (
    TRY
    + """
def ask(names):
    numbers = json.loads(sys.argv[1])
    found = [n for n in names if n in numbers and not refused(numbers[n], 0, 0, 0, 0, 0)]
    print("; ".join(found) or f"{len(names)} refused")
    sys.exit(1 if found else 0)
"""
)

KERNEL: dict[str, tuple[str, str]] = {
    "nested user namespace": (
        TRY
        + """
found = [f"unshare {flag:#x}" for flag in (0x10000000, 0x20000, 0x40000000, 0x20000000, 0x8000000, 0x4000000)
         if libc.unshare(flag) == 0]
numbers = json.loads(sys.argv[1])
pid = libc.syscall(numbers["clone"], 0x10000000 | 17, 0, 0, 0, 0)
if pid == 0: os._exit(0)
if pid > 0: found.append("clone with a new user namespace")
verdict(found)
""",
        "numbers",
    ),
    "mount": (
        TRY + 'verdict([n for n in ("tmpfs", "proc") if libc.mount(b"none", b"/tmp", n.encode(), 0, None) == 0])',
        "",
    ),
    "remount": (TRY + 'verdict(["/usr"] if libc.mount(None, b"/usr", None, 32 | 4096, None) == 0 else [])', ""),
    "ptrace": (
        TRY
        + """
child = os.fork()
if child == 0:
    os.read(0, 1); os._exit(0)
found = ["attach to a child"] if libc.ptrace(16, child, 0, 0) == 0 else []
found += ["trace me"] if libc.ptrace(0, 0, 0, 0) == 0 else []
verdict(found)
""",
        "",
    ),
    "io_uring": (_CALLS + "ask(['io_uring_setup', 'io_uring_enter', 'io_uring_register'])", "numbers"),
    "bpf": (_CALLS + "ask(['bpf'])", "numbers"),
    "keyrings": (_CALLS + "ask(['add_key', 'request_key', 'keyctl'])", "numbers"),
    "perf": (_CALLS + "ask(['perf_event_open', 'lookup_dcookie'])", "numbers"),
    "new mount calls": (
        _CALLS
        + "ask(['fsopen', 'fsmount', 'fsconfig', 'fspick', 'open_tree', 'move_mount', 'mount_setattr', 'chroot'])",
        "numbers",
    ),
    "kernel modules": (
        _CALLS + "ask(['init_module', 'finit_module', 'delete_module', 'kexec_load', 'kexec_file_load'])",
        "numbers",
    ),
    "file handles": (_CALLS + "ask(['name_to_handle_at', 'open_by_handle_at'])", "numbers"),
    "other processes' memory": (
        _CALLS + "ask(['process_vm_readv', 'process_vm_writev', 'process_madvise', 'pidfd_getfd', 'kcmp'])",
        "numbers",
    ),
    "userfaultfd": (_CALLS + "ask(['userfaultfd'])", "numbers"),
    "clock": (_CALLS + "ask(['settimeofday', 'clock_settime', 'clock_adjtime', 'adjtimex'])", "numbers"),
    "every other refused call": (
        _CALLS + "ask([name for name in json.loads(sys.argv[1]) if name != 'clone'])",
        "numbers",
    ),
    "newest calls": (
        TRY
        + """
open = [name for name, number in json.loads(sys.argv[1]).items() if not refused(number, 0, 0, 0, 0, 0)]
print(f"the engine's filter does not know {', '.join(open)}" if open else "refused"); sys.exit(2 if open else 0)
""",
        "newest",
    ),
    "borrowed pages": (
        TRY
        + """
import fcntl, socket
def worked(call):
    try: call(); return True
    except OSError: return False
source, sink = os.pipe()
ours, theirs = socket.socketpair(); ours.send(b"x")
byte = ctypes.create_string_buffer(1)
span = (ctypes.c_size_t * 2)(ctypes.addressof(byte), 1)
numbers = json.loads(sys.argv[1])
found = ["a larger pipe"] if worked(lambda: fcntl.fcntl(sink, 1031, 1 << 20)) else []
found += ["a page lent to a pipe"] if libc.syscall(numbers["vmsplice"], sink, span, ctypes.c_ulong(1), 0) > 0 else []
found += ["a socket's page in a pipe"] if libc.syscall(numbers["splice"], theirs.fileno(), 0, sink, 0, 1, 0) > 0 else []
found += ["pages lent to a socket"] if worked(lambda: socket.socket().setsockopt(1, 60, 1)) else []
thread = 0x100 | 0x200 | 0x800 | 0x10000  # memory, folder, signals, thread; not its files
child = os.fork()
if child == 0: os._exit(0 if refused(numbers["clone"], thread, 0, 0, 0, 0) else 1)
if os.waitpid(child, 0)[1]: found.append("a thread with files of its own")
verdict(found)
""",
        "lending",
    ),
    "foreign architecture": (
        """
import ctypes, mmap, os, platform, sys
if platform.machine() != "x86_64": print("x86-64 only"); sys.exit(2)
child = os.fork()
if child == 0:
    page = mmap.mmap(-1, 4096, prot=7)
    page.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")
    pid = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    os._exit(0 if pid > 0 else 3)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(f"a 32-bit system call ended with {code}"); sys.exit(code == 0)
""",
        "",
    ),
    "worker's memory": (
        TRY
        + """
found = []
for name in ("mem", "environ", "maps", "fd/10", "fd/11", "syscall", "stack", "cwd/.", "root/."):
    try:
        with open("/proc/1/" + name, "rb") as file: file.read(1)
        found.append(name)
    except IsADirectoryError: found.append(name)
    except OSError: pass
verdict(found)
""",
        "",
    ),
    "worker's scheduling": (
        TRY
        + """
idle = os.sched_param(0)
ways = {
    "nice": lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
    "nice of the user": lambda: os.setpriority(os.PRIO_USER, os.getuid(), os.getpriority(os.PRIO_PROCESS, 0)),
    "nice of a group": lambda: os.setpriority(os.PRIO_PGRP, 0, os.getpriority(os.PRIO_PROCESS, 0)),
    "policy": lambda: os.sched_setscheduler(1, os.SCHED_IDLE, idle),
    "parameters": lambda: os.sched_setparam(1, idle),
    "affinity": lambda: os.sched_setaffinity(1, {min(os.sched_getaffinity(0))}),
}
def tried(call):
    try: call(); return True
    except OSError as error: return error.errno != errno.EPERM
found = [name for name, call in ways.items() if tried(call)]
numbers = json.loads(sys.argv[1])
high = ctypes.c_ulong((1 << 32) | 1)
attr = (ctypes.c_uint32 * 12)(48, 5)
if not refused(numbers["sched_setattr"], 1, attr, 0): found.append("attributes")
if not refused(numbers["ioprio_set"], 1, 1, 3 << 13): found.append("disk")
if not refused(numbers["setpriority"], 0, high, 19): found.append("nice, high bits set")
before = os.sched_getaffinity(0)
os.sched_setaffinity(0, before); os.sched_setaffinity(os.getpid(), before); os.nice(1)
verdict(found)
""",
        "slowing",
    ),
}
