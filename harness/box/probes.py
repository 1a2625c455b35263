"""What a box must refuse, as programs run inside one. Each prints what it found and exits 0 (held), 1 (open) or 2
(cannot tell here)."""

from __future__ import annotations

_TRY = """
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

# {name: (program, what arguments it takes)}; arguments: "numbers" is JSON of system call numbers by name,
# "canary" a secret file of the host, "port" a listening TCP port of the host's loopback.
INSIDE: dict[str, tuple[str, str]] = {
    "files outside": (
        """
import os, sys
secret = sys.argv[1]
found = [p for p in (secret, "/etc/shadow", "/root/.ssh", "/var/lib", "/var/run/docker.sock") if os.path.exists(p)]
print("visible: " + ", ".join(found) if found else "the host's files are not there"); sys.exit(bool(found))
""",
        "canary",
    ),
    "host environment": (
        """
import os, sys
allowed = {"PATH", "HOME", "LANG", "PWD", "LC_CTYPE", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONUSERBASE"}
seen = set(os.environ)
for pid in filter(str.isdigit, os.listdir("/proc")):
    try: seen |= {e.split("=")[0] for e in open(f"/proc/{pid}/environ", errors="replace").read().split("\\0") if e}
    except OSError: pass
extra = {n for n in seen - allowed if not n.endswith("_NUM_THREADS")}
print("names seen: " + ", ".join(sorted(extra))[:300] if extra else "only the box's own names")
sys.exit(bool(extra))
""",
        "",
    ),
    "other processes": (
        """
import os, sys
pids = [int(p) for p in os.listdir("/proc") if p.isdigit()]
print(f"{len(pids)} processes visible"); sys.exit(set(pids) != {1, os.getpid()})
""",
        "",
    ),
    "network": (
        """
import socket, sys
found = [name for _, name in socket.if_nameindex() if name != "lo"]
for where in (("127.0.0.1", int(sys.argv[1])), ("192.0.2.1", 80), ("1.1.1.1", 53)):
    s = socket.socket(); s.settimeout(0.3)
    try: s.connect(where); found.append("reached %s:%d" % where)
    except TimeoutError: found.append("a packet left for %s" % where[0])
    except OSError: pass
print("; ".join(found) or "no way out, not even to the host's loopback"); sys.exit(bool(found))
""",
        "port",
    ),
    "sockets outside the network namespace": (
        """
import socket, sys
found = []
for family in (40, 38, 17, 31, 29):
    try: socket.socket(family, socket.SOCK_STREAM); found.append(str(family))
    except OSError: pass
print("families open: " + ", ".join(found) if found else "vsock, alg, packet, bluetooth, can refused")
sys.exit(bool(found))
""",
        "",
    ),
    "read-only system": (
        """
import os, sys
found = []
for folder in ("/", "/usr", "/usr/bin", "/etc", "/dev", "/var", "/run", "/run/guest", sys.prefix, sys.base_prefix,
               os.path.dirname(os.__file__), os.environ["HOME"], "/proc/sys/kernel"):
    try:
        with open(os.path.join(folder, "strop-probe"), "w"): found.append(folder)
    except OSError: pass
print("writable: " + ", ".join(found) if found else "nothing outside the box's folders can be written")
sys.exit(bool(found))
""",
        "",
    ),
    "nested user namespace": (
        _TRY
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
        _TRY + 'verdict([n for n in ("tmpfs", "proc") if libc.mount(b"none", b"/tmp", n.encode(), 0, None) == 0])',
        "",
    ),
    "remount": (_TRY + 'verdict(["/usr"] if libc.mount(None, b"/usr", None, 32 | 4096, None) == 0 else [])', ""),
    "ptrace": (
        _TRY
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
    "system calls": (
        _TRY
        + """
numbers = json.loads(sys.argv[1])
verdict([name for name, number in numbers.items() if name != "clone" and not refused(number, 0, 0, 0, 0, 0)])
""",
        "numbers",
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
        _TRY
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
    "worker's limits": (
        """
import resource, sys
try: resource.prlimit(1, resource.RLIMIT_NOFILE, (1, 1))
except OSError: print("refused"); sys.exit(0)
print("a program can set PID 1's limits"); sys.exit(1)
""",
        "",
    ),
    "privileges": (
        """
import os, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
found = [n for n in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb") if int(status[n], 16)]
found += [] if status["NoNewPrivs"].strip() == "1" else ["new privileges"]
found += [] if status["Seccomp"].strip() == "2" else ["no filter"]
for call in (os.setuid, os.setgid):
    try: call(0); found.append(call.__name__ + "(0)")
    except OSError: pass
print("; ".join(found) or "no capabilities, no new privileges, filtered"); sys.exit(bool(found))
""",
        "",
    ),
    "device nodes": (
        """
import os, stat, sys
found = []
disk, other, memory = os.makedev(8, 0), os.makedev(254, 0), os.makedev(1, 1)
for kind, device in ((stat.S_IFBLK, disk), (stat.S_IFBLK, other), (stat.S_IFCHR, memory)):
    try: os.mknod(f"/tmp/node{len(found)}", kind | 0o600, device); found.append(str(device))
    except OSError: pass
print("made: " + ", ".join(found) if found else "refused"); sys.exit(bool(found))
""",
        "",
    ),
    "objects that outlive processes": (
        _TRY
        + """
found = ["System V memory"] if libc.shmget(0, 4096, 0o1600) >= 0 else []
found += ["System V queue"] if libc.msgget(0, 0o1600) >= 0 else []
found += ["memory behind a descriptor"] if libc.memfd_create(b"x", 0) >= 0 else []
verdict(found)
""",
        "",
    ),
    "open files": (
        """
import os, resource, sys
limit = int(sys.argv[1]); held = []
try:
    while len(held) <= limit: held.append(os.open("/dev/null", os.O_RDONLY))
except OSError: pass
count = len(held)
try: resource.setrlimit(resource.RLIMIT_NOFILE, (limit * 2, limit * 2)); raised = True
except (OSError, ValueError): raised = False
print(f"{count} of {limit} opened, raising the limit {'worked' if raised else 'refused'}")
sys.exit(count > limit or raised)
""",
        "open_files",
    ),
    "disk": (
        """
import os, sys
limit = int(sys.argv[1]) << 20; found = []; block = bytes(1 << 20)
for place in sys.argv[2:]:
    written = 0
    try:
        with open(place + "/fill", "wb", buffering=0) as file:
            while written <= limit + (8 << 20): written += file.write(block)
    except OSError: pass
    if written > limit: found.append(f"{place} took {written >> 20} MB")
    os.unlink(place + "/fill")
print("; ".join(found) or f"every place ends at {limit >> 20} MB"); sys.exit(bool(found))
""",
        "disk",
    ),
    "processes": (
        """
import os, sys, time
limit, made = int(sys.argv[1]), 0
try:
    while made <= limit + 32:
        if os.fork() == 0: time.sleep(60); os._exit(0)
        made += 1
except OSError: pass
print(f"{made} processes at a limit of {limit}"); sys.exit(made > limit)
""",
        "pids",
    ),
}

HOLD = """
import mmap, os, sys, time
way, size = sys.argv[1], int(sys.argv[2]) << 20
def fill(size):
    held = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, size, 4096): held[at] = 1
    return held
if way == "one": keep = fill(2 * size)
elif way == "many":
    for _ in range(4):
        if os.fork() == 0: keep = fill(size // 2); time.sleep(20); os._exit(0)
elif way == "hidden":
    keep = []
    for _ in range(32):
        held = mmap.mmap(-1, size // 16)
        for at in range(0, size // 16, 4096): held[at] = 1
        held.madvise(mmap.MADV_DONTNEED); keep.append(held)
time.sleep(3)
print("held it all")
"""
BOMB = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n"
DAEMON = """
import os, signal, sys, time
for _ in range(2):
    if os.fork(): break
    os.setsid()
else:
    for number in range(1, 32):
        try: signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError): pass
    time.sleep(60); os._exit(0)
time.sleep(float(sys.argv[1]))
"""
FLOOD = "import os\nwhile True: os.write(1, b'x' * 65536)\n"
SIGNALS = """
import os, signal
for number in range(1, 65):
    try: os.kill(1, number)
    except OSError: pass
"""
COUNT = "import os; print(len([p for p in os.listdir('/proc') if p.isdigit()]))"
LEAVE = """
import os, subprocess
for place in os.sys.argv[1:]:
    os.makedirs(place + "/a/b/c"); open(place + "/a/b/c/f", "w").write("left"); os.mkfifo(place + "/p")
    os.symlink("/usr", place + "/l"); os.chmod(place + "/a/b", 0); os.chmod(place, 0o500)
"""
BURN = """
import os, time
for _ in range(3): os.fork()
end = time.monotonic() + 1.0
while time.monotonic() < end: pass
"""
