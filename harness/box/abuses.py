"""Programs that run into the limits of a box; `harness.box.selfcheck` gives each a box of its own."""

from __future__ import annotations

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
elif way == "tables":
    import ctypes
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    span = size << 10  # four kilobytes of tables for every two megabytes: twice the limit
    at = libc.mmap(None, span, 1, 0x4022, -1, 0)
    libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(span), 15)
    for page in range(at, at + span, 2 << 20): ctypes.c_char.from_address(page).value
elif way == "sockets":
    import socket
    sent, keep = 0, []
    while sent < 2 * size:  # more files than one process may have: what each fork sent stays with it
        try: ends = socket.socketpair()
        except OSError:
            if os.fork(): time.sleep(20); os._exit(0)
            for end in keep: end.close()
            keep = []; continue
        ends[0].setblocking(False)
        try:
            while True: sent += ends[0].send(bytes(1 << 16))
        except BlockingIOError: pass
        keep.append(ends[1]); ends[0].close()
time.sleep(3)
print("held it all")
"""
PIPES = """
import ctypes, fcntl, os, sys, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
size, large, held, keep = int(sys.argv[1]) << 20, 2 << 20, 0, []
def gift(sink):  # a byte of a large page, which the pipe then holds whole
    at = libc.mmap(None, 2 * large, 3, 0x22, -1, 0)
    page = ctypes.c_void_p((at + large - 1) // large * large)
    libc.madvise(page, ctypes.c_size_t(large), 14)
    ctypes.memset(page, 1, 1)
    given = libc.vmsplice(sink, (ctypes.c_size_t * 2)(page.value, 1), ctypes.c_ulong(1), 2) == 1
    libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(2 * large))
    return large if given else 0
def fill(sink):
    os.set_blocking(sink, False)
    took = 0
    try:
        while given := gift(sink): took += given
        while True: took += os.write(sink, bytes(1 << 16))
    except BlockingIOError: return took
while held < 2 * size:
    try: source, sink = os.pipe()
    except OSError:  # as many as one process may have: what each fork holds stays with it
        try: child = os.fork()
        except OSError: break
        if child: os.waitpid(child, 0); os._exit(0)
        for end in keep: os.close(end)
        keep = []; continue
    try: fcntl.fcntl(sink, 1031, 1 << 20)
    except OSError: pass
    held += fill(sink)
    os.close(sink); keep.append(source)
time.sleep(0.3)
print(held >> 20)
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
