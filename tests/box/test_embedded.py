import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from harness.box import bubblewrap
from harness.box.base import BoxSpec, Command, Mount
from harness.box.embedded import EmbeddedBoxes
from harness.box.reaper import labelled, sweep
from harness.box.selfcheck import selfcheck
from harness.errors import BoxUnavailableError, InfraError, LimitError
from harness.limits import Limits
from harness.testing.box_contract import BoxContract, python
from harness.tree import Entry


class TestEmbeddedBoxes(BoxContract):
    def boxes(self):
        return EmbeddedBoxes()


async def test_every_promise_is_held():
    told = []
    probes = await selfcheck(EmbeddedBoxes(), heard=lambda *what: told.append(what))
    assert {name for name, _, _ in told} == {probe.name for probe in probes}
    assert [(count, total) for _, count, total in told] == [(n + 1, len(probes)) for n in range(len(probes))]
    assert len(probes) >= 60
    assert {probe.name: probe.detail for probe in probes if probe.held is not True and probe.name != "cpu"} == {}


async def test_the_python_is_the_users_own_with_its_packages():
    async with EmbeddedBoxes().open(BoxSpec(owner="python")) as box:
        done = await python(box, "import sys, numpy; print(sys.executable, sys.prefix, numpy.__version__, sep='\\n')")
    import numpy

    assert done.stdout.decode().splitlines() == [sys.executable, sys.prefix, numpy.__version__]


@pytest.mark.parametrize("program", bubblewrap.candidates(), ids=str)
async def test_every_bubblewrap_here_works(program):
    await EmbeddedBoxes(program=program).prepare()


async def test_a_bubblewrap_that_does_not_work_is_said_with_a_mend(tmp_path):
    tmp_path.chmod(0o755)
    broken = tmp_path / "package" / "bin" / "bwrap"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(BoxUnavailableError) as caught:
        await EmbeddedBoxes(program=broken).prepare()
    assert "uid map" in caught.value.reason
    assert "user namespaces" in caught.value.mend


async def test_disk_full_in_put_is_a_limit():
    async with EmbeddedBoxes().open(BoxSpec(owner="disk", limits=Limits(disk_mb=1))) as box:
        with pytest.raises(LimitError, match="disk"):
            await box.put([Entry(b"f", "file", data=bytes(2 << 20))], "/work")
        await box.reset()
        await box.put([Entry(b"f", "file", data=bytes(1 << 19))], "/work")


async def test_a_mount_is_read_only(tmp_path):
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    (tmp_path / "f").write_text("mounted")
    async with EmbeddedBoxes().open(BoxSpec(owner="mount", mounts=(Mount(tmp_path, "/data/big"),))) as box:
        done = await python(box, "print(open('/data/big/f').read()); open('/data/big/g', 'w')")
        assert (done.exit_code, done.stdout) == (1, b"mounted\n")
        await box.reset()
        assert await box.get("/data", max_bytes=100) == []
        assert (await python(box, "print(open('/data/big/f').read())")).stdout == b"mounted\n"


async def test_reset_finds_what_hides_beside_a_mount(tmp_path):
    tmp_path.chmod(0o755)
    async with EmbeddedBoxes().open(BoxSpec(owner="mount", mounts=(Mount(tmp_path, "/data/deep/big"),))) as box:
        await python(box, "open('/data/deep/hidden', 'w')")
        await box.reset()
        done = await python(box, "import os; print(os.listdir('/data/deep'))")
        assert done.stdout == b"['big']\n"


async def test_a_deep_tree_is_wiped():
    source = "import os\nfor _ in range(5000): os.mkdir('d'); os.chdir('d')\n"
    async with EmbeddedBoxes().open(BoxSpec(owner="deep")) as box:
        assert (await python(box, source)).exit_code == 0
        with pytest.raises(LimitError, match="output"):
            await box.get("/work", max_bytes=100)
        await box.reset()
        assert await box.get("/work", max_bytes=100) == []


HOST = """
import anyio, sys
from harness.box.base import BoxSpec, Command
from harness.box.embedded import EmbeddedBoxes
DAEMON = '''
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
time.sleep(600)
'''
async def main():
    async with EmbeddedBoxes().open(BoxSpec(owner=sys.argv[1])) as box:
        print('open', flush=True)
        await box.exec(Command(('python', '-c', DAEMON), 600))
anyio.run(main)
"""


def _in_box(owner: str) -> set[int]:
    """Pids of the box's monitor and of everything below it."""
    found = set(labelled([owner]))
    queue = list(found)
    while queue:
        try:
            children = Path(f"/proc/{(pid := queue.pop())}/task/{pid}/children").read_text().split()
        except OSError:
            continue
        found |= {int(child) for child in children}
        queue += [int(child) for child in children]
    return found


def test_kill_9_of_the_host_leaves_no_process():
    owner = f"killed-{os.getpid()}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    host = subprocess.Popen([sys.executable, "-c", HOST, owner], stdout=subprocess.PIPE, env=environment)
    assert host.stdout is not None
    with host, host.stdout:
        assert host.stdout.readline() == b"open\n"
        deadline = time.monotonic() + 20
        while len(pids := _in_box(owner)) < 4:  # monitor, worker, command, its daemon
            assert time.monotonic() < deadline, pids
            time.sleep(0.01)
        host.send_signal(signal.SIGKILL)
        host.wait()
        deadline = time.monotonic() + 5
        while any(Path(f"/proc/{pid}").exists() and _running(pid) for pid in pids):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def _running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in {"Z", "X"}
    except OSError:
        return False


async def test_leaving_the_context_leaves_no_process():
    owner = f"left-{os.getpid()}"
    async with EmbeddedBoxes().open(BoxSpec(owner=owner)) as box:
        assert len(_in_box(owner)) == 2
        with anyio.move_on_after(0.2):
            await box.exec(Command(("python", "-c", "import os, time; os.fork() or os.setsid(); time.sleep(60)"), 50))
        assert _in_box(owner) == set()


async def test_reap_kills_what_is_labelled():
    owner = f"orphan-{os.getpid()}"
    sweep()  # what earlier tests left
    async with EmbeddedBoxes().open(BoxSpec(owner=owner)):
        assert await EmbeddedBoxes().reap([owner + "-2", owner[:-1]]) == 0
        assert await EmbeddedBoxes().reap([owner]) >= 1
    assert _in_box(owner) == set()


async def test_an_owner_is_a_plain_name():
    for owner in ("", "a/b", "a b", "x" * 80, "-a", "a\n"):
        with pytest.raises(ValueError, match="owner"):
            async with EmbeddedBoxes().open(BoxSpec(owner=owner)):
                pass


async def test_any_number_may_close_a_box_at_once():
    boxes = EmbeddedBoxes()
    await boxes.prepare()
    async with boxes.open(BoxSpec(owner="closed-thrice")) as box, anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(box.close)


_MEASURE = """
import socket, struct, sys, time
sys.path.insert(0, "/run/guest")
from sockets import Sockets
measured = Sockets()
if sys.argv[1] == "estimated": measured._asked = None
def fill(end, block=1 << 16):
    end.setblocking(False); sent = 0
    try:
        while True: sent += end.send(bytes(block))
    except BlockingIOError: return sent
def unix(kind, close):
    sent = 0
    for _ in range(10):
        ends = socket.socketpair(socket.AF_UNIX, kind); keep.append(ends); sent += fill(ends[0], 1 << 13)
        if close: ends[0].close()
    return sent
def tcp():
    door = socket.create_server(("127.0.0.1", 0)); ours = socket.create_connection(door.getsockname())
    keep.extend((door, ours, door.accept()[0])); return fill(ours)
def udp():
    door = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); door.bind(("127.0.0.1", 0)); ours = socket.socket(2, 2)
    ours.connect(door.getsockname()); keep.extend((door, ours))
    for _ in range(100): ours.send(bytes(1000))
    return 40_000
def reset():
    door = socket.create_server(("127.0.0.1", 0)); sent = 0; keep.append(door)
    for _ in range(20):
        ours = socket.create_connection(door.getsockname()); keep.append(door.accept()[0]); fill(ours)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)); ours.close(); sent += 100_000
    return sent
ways = (lambda: unix(socket.SOCK_STREAM, False), lambda: unix(socket.SOCK_STREAM, True),
        lambda: unix(socket.SOCK_DGRAM, True), lambda: unix(socket.SOCK_SEQPACKET, True), tcp, udp, reset)
def settled():  # what is on its way from one socket to another may be missed
    measured.held(); time.sleep(0.02); return measured.held()
for way in ways:
    keep, before = [], settled()
    sent = way(); grown = settled() - before
    print(sent > 0 and grown >= sent)
    for thing in keep: [end.close() for end in (thing if isinstance(thing, tuple) else (thing,))]
small = [socket.socketpair() for _ in range(20)]; before = settled()
for ends in small: ends[0].send(b"x")
print(settled() - before < 100_000)
"""


@pytest.mark.parametrize("how", ["asked", "estimated"])
async def test_the_watchdog_sees_what_sockets_hold(how):
    async with EmbeddedBoxes().open(BoxSpec(owner="sockets")) as box:
        done = await box.exec(Command(("python", "-c", _MEASURE, how), deadline_s=20))
    assert (done.stdout.split(), done.stderr) == ([b"True"] * 8, b"")


async def test_a_self_check_whose_boxes_fail_raises_what_was_said():
    class Failing(EmbeddedBoxes):
        def open(self, spec):
            if self._prepared:
                raise InfraError("no more boxes")
            return super().open(spec)

    with pytest.raises(InfraError, match="no more boxes"):
        await selfcheck(Failing())


_PIPES = """
import ctypes, os, sys, time
sys.path.insert(0, "/run/guest")
import fifos
def counted(*pids): return fifos.held(pids, {pid: 64 for pid in pids}) // fifos.ROOM
here = os.getpid(); before = counted(here)
pipes = [os.pipe() for _ in range(20)]
os.mkfifo("/tmp/f"); fifo = os.open("/tmp/f", os.O_RDWR); again = os.dup(fifo); file = os.open("/tmp/g", os.O_CREAT)
print(before, counted(here) - before)
go, ready = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.write(ready[1], b"x"); os.read(go[0], 1); ctypes.CDLL(None).prctl(4, 0); os.write(ready[1], b"x"); time.sleep(60)
os.read(ready[0], 1); print(counted(here, child) - before, counted(child) - before)
os.write(go[1], b"x"); os.read(ready[0], 1); print(counted(child), counted(999999))
"""


async def test_every_pipe_is_counted_once_and_an_unreadable_process_as_full_of_them():
    async with EmbeddedBoxes().open(BoxSpec(owner="pipes")) as box:
        done = await box.exec(Command(("python", "-c", _PIPES), deadline_s=20))
    assert (done.stdout, done.stderr) == (b"3 21\n23 23\n64 0\n", b"")


async def test_the_watchdog_ends_a_program_whose_pipes_hold_too_much(monkeypatch):
    monkeypatch.setattr("harness.box.cgroup.seats", dict)
    source = "import os, time\nfor _ in range(900): os.write(os.pipe()[1], bytes(1 << 16))\ntime.sleep(15)"
    async with EmbeddedBoxes().open(BoxSpec(owner="pipes", limits=Limits(memory_mb=56, open_files=2000))) as box:
        with pytest.raises(LimitError, match="memory"):
            await box.exec(Command(("python", "-c", source), deadline_s=20))
        done = await box.exec(Command(("python", "-c", "import os; [os.pipe() for _ in range(100)]"), deadline_s=20))
        assert done.exit_code == 0
