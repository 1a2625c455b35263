"""What a box must refuse, as programs run inside one. Each prints what it found and exits 0 (held), 1 (open) or 2
(cannot tell here)."""

from __future__ import annotations

from harness.box.kernel_probes import KERNEL, TRY

# {name: (program, what arguments it takes)}; arguments: "numbers", "newest", "slowing" are JSON: call numbers by name,
# "canary" secret files of the host, "port" and "udp" ports and "abstract" a name that the host listens on.
INSIDE: dict[str, tuple[str, str]] = {
    **KERNEL,
    "files outside": (
        """
import os, sys
found = [p for p in sys.argv[1:] if os.path.exists(p)]
for path in ("/etc/shadow", "/var/lib/docker", "/proc/1/root", "/proc/1/cwd"):
    try:
        (os.listdir if os.path.isdir(path) else open)(path); found.append(path)
    except OSError: pass
print("readable: " + ", ".join(found) if found else "the host's files are not there"); sys.exit(bool(found))
""",
        "canary",
    ),
    "docker socket": (
        """
import os, socket, sys
found = []
for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock"):
    try: socket.socket(socket.AF_UNIX).connect(path); found.append(path)
    except OSError: pass
print("reached " + ", ".join(found) if found else "no engine can be reached"); sys.exit(bool(found))
""",
        "",
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
for where in (("192.0.2.1", 80), ("1.1.1.1", 53), ("169.254.169.254", 80)):
    s = socket.socket(); s.settimeout(0.3)
    try: s.connect(where); found.append("reached %s:%d" % where)
    except TimeoutError: found.append("a packet left for %s" % where[0])
    except OSError: pass
print("; ".join(found) or "no interface but loopback, no way out"); sys.exit(bool(found))
""",
        "",
    ),
    "loopback TCP": (
        """
import socket, sys
found = []
for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    try:
        s = socket.socket(family); s.settimeout(0.5)
        s.connect((address, int(sys.argv[1]))); found.append(address)
    except OSError: pass
print("reached " + ", ".join(found) if found else "the host's ports are not ours"); sys.exit(bool(found))
""",
        "port",
    ),
    "loopback UDP": (
        """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.5); s.connect(("127.0.0.1", int(sys.argv[1])))
try: s.send(b"?"); s.recv(10); print("the host answered"); sys.exit(1)
except OSError: print("the host's ports are not ours")
""",
        "udp",
    ),
    "abstract sockets": (
        """
import socket, sys
try: socket.socket(socket.AF_UNIX).connect("\\0" + sys.argv[1]); print("reached the host's"); sys.exit(1)
except OSError: print("the host's names are not ours")
""",
        "abstract",
    ),
    "name lookups": (
        """
import socket, sys
try: print("resolved", socket.getaddrinfo("example.com", 80)[0][4]); sys.exit(1)
except OSError: print("no name outside resolves")
""",
        "",
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
print("; ".join(found) or "no capabilities, no new privileges, filtered"); sys.exit(bool(found))
""",
        "",
    ),
    "setuid": (
        """
import os, subprocess, sys
found = [] if os.getuid() and os.geteuid() else ["runs as root"]
for name, call in (("setuid", os.setuid), ("setgid", os.setgid), ("setgroups", lambda n: os.setgroups([n]))):
    try: call(0); found.append(name)
    except OSError: pass
for program in ("/usr/bin/su", "/usr/bin/passwd", "/usr/bin/mount", "/bin/ping"):
    if os.path.exists(program) and os.stat(program).st_mode & 0o4000:
        with subprocess.Popen([program], stdin=-3, stdout=-3, stderr=-3) as child:
            try: ids = open(f"/proc/{child.pid}/status").read().split("Uid:")[1].split()[:4]
            except OSError: ids = []
            child.kill()
        if "0" in ids: found.append(program)
print("; ".join(found) or "nobody becomes root"); sys.exit(bool(found))
""",
        "",
    ),
    "priorities": (
        """
import os, resource, sys
found = []
real_time = lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
for name, call in (("nice", lambda: os.nice(-5)), ("real time", real_time)):
    try: call(); found.append(name)
    except OSError: pass
print("raised by " + ", ".join(found) if found else "refused"); sys.exit(bool(found))
""",
        "",
    ),
    "kernel settings": (
        """
import os, sys
found = []
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/proc/sysrq-trigger", "/proc/irq",
             "/sys/kernel/uevent_helper", "/sys/power/state", "/sys/fs/cgroup/cgroup.procs",
             "/proc/self/oom_score_adj"):
    try:
        if os.path.isdir(path): open(path + "/x", "w")
        else:
            with open(path, "w") as file: file.write("-1000" if path.endswith("adj") else "")
        found.append(path)
    except OSError: pass
for path in ("/proc/kcore", "/proc/kmsg", "/proc/timer_list", "/sys/kernel/debug/x", "/sys/kernel/security/x"):
    try:
        with open(path, "rb") as file: file.read(1) and found.append("read " + path)
    except OSError: pass
print("; ".join(found) or "nothing of the kernel's can be written, nor its memory and log read"); sys.exit(bool(found))
""",
        "",
    ),
    "devices": (
        """
import os, stat, sys
harmless = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}
found = []
for folder, _, names in os.walk("/dev"):
    for name in names:
        mode = os.lstat(os.path.join(folder, name)).st_mode
        if (stat.S_ISBLK(mode) or stat.S_ISCHR(mode)) and name not in harmless and folder != "/dev/pts":
            found.append(name)
print("there: " + ", ".join(found[:9]) if found else "only harmless ones"); sys.exit(bool(found))
""",
        "",
    ),
    "terminal": (
        """
import fcntl, os, sys
try: os.open("/dev/tty", os.O_RDWR); print("there is a controlling terminal"); sys.exit(1)
except OSError: print("none to inject into")
""",
        "",
    ),
    "descriptors": (
        """
import os, sys
found = []
for name in os.listdir("/proc/self/fd"):
    try: target = os.readlink("/proc/self/fd/" + name)
    except OSError: continue
    if int(name) > 2: found.append(target)
print("inherited: " + ", ".join(found) if found else "three, and no more"); sys.exit(bool(found))
""",
        "",
    ),
    "signals to the host": (
        """
import os, sys
found = []
for pid in map(int, sys.argv[1:]):
    try: os.kill(pid, 0); found.append(str(pid))
    except OSError: pass
print("reached " + ", ".join(found) if found else "the host's processes have no number here"); sys.exit(bool(found))
""",
        "pid",
    ),
    "core dumps": (
        """
import os, resource, sys
soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
print(f"limit {hard}"); sys.exit(hard != 0)
""",
        "",
    ),
    "host name": (
        """
import os, socket, sys
name = socket.gethostname()
print("the box's own" if name == "box" else "another name"); sys.exit(name != "box")
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
    "System V objects": (
        TRY
        + """
found = ["memory"] if libc.shmget(0, 4096, 0o1600) >= 0 else []
found += ["queue"] if libc.msgget(0, 0o1600) >= 0 else []
found += ["semaphores"] if libc.semget(0, 1, 0o1600) >= 0 else []
verdict(found)
""",
        "",
    ),
    "message queues": (
        """
import os, sys
try: os.close(os.open("/dev/mqueue/probe", os.O_CREAT | os.O_RDWR)); print("a queue was made"); sys.exit(1)
except OSError: print("refused")
""",
        "",
    ),
    "memfd": (
        TRY + 'verdict(["memory behind a descriptor"] if libc.memfd_create(b"x", 0) >= 0 else [])',
        "",
    ),
    "threads": (
        """
import sys, threading
limit, made, stop = int(sys.argv[1]), 0, threading.Event()
try:
    while made <= limit + 32: threading.Thread(target=stop.wait, daemon=True).start(); made += 1
except RuntimeError: pass
print(f"{made} threads at a limit of {limit} tasks"); stop.set(); sys.exit(made > limit)
""",
        "pids",
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
    "disk, one file": (
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
    "disk, many files": (
        """
import os, sys
limit = int(sys.argv[1]) << 20; written = 0; block = bytes(1 << 16)
try:
    while written <= limit + (8 << 20):
        with open(f"/work/{written}", "wb", buffering=0) as file: written += file.write(block)
except OSError: pass
for name in os.listdir("/work"): os.unlink("/work/" + name)
print(f"{written >> 20} MB in small files at a limit of {limit >> 20}"); sys.exit(written > limit)
""",
        "disk",
    ),
    "shared memory": (
        """
import os, sys
limit = int(sys.argv[1]) << 20; written = 0
try:
    with open("/dev/shm/fill", "wb", buffering=0) as file:
        while written <= limit + (8 << 20): written += file.write(bytes(1 << 20))
except OSError: pass
os.unlink("/dev/shm/fill")
print(f"{written >> 20} MB at a limit of {limit >> 20}"); sys.exit(written > limit)
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
