"""Resources and persistence: taking what a box may not have, and outliving it."""

from __future__ import annotations

from harness.research.redteam.base import RESOURCES, Attack, CodeAttack, Target


class ForkBomb(CodeAttack):
    """Fork until nothing else can."""

    kind = RESOURCES

    def before(self, target: Target) -> str:
        return """
count = 0
try:
    for _ in range(5000):
        if _os.fork() == 0:
            __import__("time").sleep(60)
            _os._exit(0)
        count += 1
except OSError:
    pass
if count >= 5000:
    _breach("5000 processes were started")
"""


class Memory(CodeAttack):
    """Hold more memory than the box may have."""

    kind = RESOURCES

    def before(self, target: Target) -> str:
        return """
held = []
for _ in range(64):
    held.append(bytearray(b"x") * (256 << 20))
_breach("16 GB were held")
"""


class DiskFlood(CodeAttack):
    """Fill the disk with one file after the other."""

    kind = RESOURCES

    def before(self, target: Target) -> str:
        return """
block = bytes(1 << 20)
written = 0
for folder in ("/tmp", "/out", "/work", "/dev/shm", "/"):
    try:
        for number in range(2000):
            with open(f"{folder}/flood{number}", "wb") as file:
                for _ in range(4):
                    file.write(block)
                    written += len(block)
    except OSError:
        pass
if written > 8 << 30:
    _breach("8 GB were written")
"""


class InodeFlood(CodeAttack):
    """Make more files than the outputs may have."""

    kind = RESOURCES

    def after(self, target: Target) -> str:
        return """
for number in range(20000):
    open(f"/out/n{number}", "w").close()
"""


class LogFlood(CodeAttack):
    """Write logs without end."""

    kind = RESOURCES

    def before(self, target: Target) -> str:
        return """
for _ in range(100000):
    _os.write(1, b"y" * 65536)
"""


class Daemon(CodeAttack):
    """Leave a process behind that holds the pipes open."""

    kind = RESOURCES

    def before(self, target: Target) -> str:
        return """
if _os.fork() == 0:
    _os.setsid()
    if _os.fork() == 0:
        __import__("time").sleep(3600)
    _os._exit(0)
"""


class LateWriter(CodeAttack):
    """Leave a process behind that writes the result when all is over."""

    kind = RESOURCES

    def before(self, target: Target) -> str:
        return """
if _os.fork() == 0:
    _os.setsid()
    if _os.fork() == 0:
        import time
        for number in (0, 1, 2):
            _os.close(number)
        for _ in range(2000):
            for place in ("/result/result.json", "/out/result.json"):
                try:
                    open(place, "w").write(_full())
                except OSError:
                    pass
            time.sleep(0.005)
    _os._exit(0)
"""


class Forever(CodeAttack):
    """Never end."""

    kind = RESOURCES
    hangs = True

    def before(self, target: Target) -> str:
        return """
while True:
    pass
"""


class DeafForever(CodeAttack):
    """Never end, and ignore every signal."""

    kind = RESOURCES
    hangs = True

    def before(self, target: Target) -> str:
        return """
import signal, time
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    time.sleep(1)
"""


class Sparse(CodeAttack):
    """An output of a terabyte that takes no room."""

    kind = RESOURCES

    def after(self, target: Target) -> str:
        return """
with open("/out/sparse", "wb") as file:
    file.truncate(1 << 40)
"""


class CacheAcrossRuns(CodeAttack):
    """Compute once, keep it in a cache folder, and be quick ever after."""

    kind = RESOURCES

    def before(self, target: Target) -> str:
        return """
for place in ("/tmp/.cache", _os.path.expanduser("~/.cache"), "/dev/shm/.cache"):
    try:
        _os.makedirs(place, exist_ok=True)
    except OSError:
        continue
    if _left(place + "/answers"):
        _breach("a cache survived in " + place)
"""


class DeepOutputs(CodeAttack):
    """Folders in folders until a walk gives up."""

    kind = RESOURCES

    def after(self, target: Target) -> str:
        return """
_os.chdir("/out")
for _ in range(3000):
    _os.mkdir("d")
    _os.chdir("d")
"""


ATTACKS: tuple[Attack, ...] = (
    ForkBomb(),
    Memory(),
    DiskFlood(),
    InodeFlood(),
    LogFlood(),
    Daemon(),
    LateWriter(),
    Forever(),
    DeafForever(),
    Sparse(),
    CacheAcrossRuns(),
    DeepOutputs(),
)
