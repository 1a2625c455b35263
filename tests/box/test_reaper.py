import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from harness.box import cgroup, host, reaper
from harness.box.reaper import folders, labelled, reap, remove_tree, sweep

OPENER = """
import anyio, sys
from harness.box.base import BoxSpec
from harness.box.embedded import EmbeddedBoxes
from harness.box.process import ProcessBoxes
from harness.limits import Limits
async def loop(boxes):
    while True:
        async with boxes.open(BoxSpec(owner="opener", limits=Limits(disk_mb=8))):
            pass
async def main():
    async with anyio.create_task_group() as group:
        group.start_soon(loop, EmbeddedBoxes())
        group.start_soon(loop, ProcessBoxes())
        print("opening", flush=True)
anyio.run(main)
"""


def left_by(token):
    """What can be found of the boxes of one process."""
    processes = [pid for pid, found in reaper.marked() if found == token]
    temp = list(Path(os.environ.get("TMPDIR", "/tmp")).glob(f"strop-box-*{token}*"))
    return [*processes, *temp, *(group for group, found in cgroup.marked() if found == token)]


def token_of(pid):
    return f"{host.scope().boot}.{host.scope().namespace}.{host._process(pid, host._started(pid))}"


def test_nothing_is_left_of_killed_hosts_after_one_sweep():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    tokens, pause = [], 0.0
    for number in range(25):
        opener = subprocess.Popen([sys.executable, "-c", OPENER], stdout=subprocess.PIPE, env=environment)
        assert opener.stdout is not None
        with opener, opener.stdout:
            assert opener.stdout.readline() == b"opening\n"
            tokens.append(token_of(opener.pid))
            pause = (pause + 0.0137 * (number + 1)) % 0.09  # anywhere in an opening
            time.sleep(pause)
            opener.kill()
    sweep()
    deadline = time.monotonic() + 10  # the kernel's own clean-up of what was killed
    while (left := [thing for token in tokens for thing in left_by(token)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == []


def test_a_stuck_bubblewrap_goes_without_a_sweep():
    """What an opening leaves ends by itself: nothing waits for a parent that is gone."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    opener = subprocess.Popen([sys.executable, "-c", OPENER], stdout=subprocess.PIPE, env=environment)
    assert opener.stdout is not None
    with opener, opener.stdout:
        assert opener.stdout.readline() == b"opening\n"
        token = token_of(opener.pid)
        time.sleep(0.03)
        opener.kill()
    deadline = time.monotonic() + 20
    while any(found == token for _, found in reaper.marked()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    sweep()


def test_the_living_and_the_unknown_are_never_touched(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gone = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    dead = token_of(gone.pid)
    gone.communicate(b"\n")
    elsewhere = dead.replace(host.scope().namespace, "0" * 8)
    kept = [tmp_path / f"strop-box-a-{token}-01234567" for token in (host.token(), elsewhere, token_of(os.getppid()))]
    kept += [tmp_path / "strop-box-a-01234567", tmp_path / "mine"]
    lost = [
        tmp_path / f"strop-box-b-{dead}-01234567",
        tmp_path / f"strop-box-b-{dead.replace(dead[:8], '0' * 8)}-01234567",
    ]
    for folder in (*kept, *lost):
        folder.mkdir()
    source = "import time; print(1, flush=True); time.sleep(60)"
    children = [
        subprocess.Popen([sys.executable, "-c", source, f"strop-host:{token}"], stdout=subprocess.PIPE)
        for token in (dead, host.token(), elsewhere)
    ]
    children.append(
        subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, env={**os.environ, host.LABEL: dead})
    )
    try:
        for child in children:
            assert child.stdout.readline() == b"1\n"
        sweep()
        assert (children[0].wait(10), children[3].wait(10)) == (-signal.SIGKILL, -signal.SIGKILL)
        assert [child.poll() for child in children[1:3]] == [None, None]
    finally:
        for child in children:
            child.kill()
            child.communicate()
    assert sorted(tmp_path.iterdir()) == sorted(kept)


def test_two_removals_at_once_do_not_fail(tmp_path):
    for number in range(20):
        top = tmp_path / str(number)
        for index in range(40):
            (top / str(index) / "a" / "b").mkdir(parents=True)
            (top / str(index) / "f").touch()
        failed = []

        def remove(top=top, failed=failed):
            try:
                remove_tree(top)
            except OSError as error:
                failed.append(error)

        threads = [threading.Thread(target=remove) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert not top.exists()


def test_processes_and_folders_of_dead_owners_go(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dead = f"dead-{os.getpid()}"
    ours = tmp_path / f"strop-box-{dead}-{host.token()}-0123abcd"
    others = [
        tmp_path / name
        for name in (f"strop-box-{dead}-2-{host.token()}-0123abcd", f"strop-box-live-{host.token()}-0123abcd", dead)
    ]
    for folder in (ours, *others):
        (folder / "work").mkdir(parents=True)
    source = "import time; print(1, flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", source, f"strop-box:{dead}"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"1\n"
    assert list(labelled([dead])) == [child.pid]
    assert folders([dead]) == [ours]
    assert folders([]) == []
    assert reap([dead]) == 2
    assert child.wait(5) == -9
    child.stdout.close()
    assert not ours.exists()
    assert all(folder.exists() for folder in others)
    assert reap([dead]) == 0


def test_a_hostile_folder_is_removed_and_nothing_else(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    top = tmp_path / "top"
    top.mkdir()
    (top / "link").symlink_to(outside)
    os.mkfifo(top / "fifo")
    make = (
        "import os, sys\nfor _ in range(120): os.mkdir('d' * 60); os.chdir('d' * 60)\nos.symlink(sys.argv[1], 'link')"
    )
    subprocess.run([sys.executable, "-c", make, outside], cwd=top, check=True)
    (top / "closed").mkdir(mode=0)
    remove_tree(top)
    assert not top.exists()
    assert (outside / "kept").exists()
