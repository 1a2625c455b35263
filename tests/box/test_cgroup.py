import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.box import cgroup, host
from harness.box.cgroup import Cgroup, Seat
from harness.limits import Limits

LIMITS = Limits(memory_mb=64, cpus=0.5, pids=8)


@pytest.fixture
def seat(tmp_path, monkeypatch):
    """A folder that stands for a hierarchy: files can be written where the kernel would have made them."""

    def sit(version):
        monkeypatch.setattr(
            cgroup, "seats", lambda: {name: Seat(tmp_path, version) for name in ("memory", "pids", "cpu")}
        )
        return tmp_path

    return sit


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (1, {"memory.limit_in_bytes": "67108864", "pids.max": "12", "cpu.cfs_quota_us": "50000"}),
        (2, {"memory.max": "67108864", "memory.swap.max": "0", "pids.max": "12", "cpu.max": "50000 100000"}),
    ],
)
def test_limits_are_written_in_each_version(seat, version, expected):
    root = seat(version)
    group = Cgroup("run", LIMITS)
    (folder,) = root.iterdir()
    assert group.held == {"memory", "pids", "cpu"}
    assert {name: (folder / name).read_text() for name in expected} == expected
    group.join([os.getpid()])
    assert (folder / "cgroup.procs").read_text() == str(os.getpid())
    assert "run" not in folder.name
    assert cgroup.leftovers("run") == [folder]
    assert cgroup.leftovers("ru") == []


def test_kills_for_memory_are_counted(seat):
    root = seat(2)
    group = Cgroup("run", LIMITS)
    (folder,) = root.iterdir()
    assert group.oom_kills() == 0
    (folder / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    assert group.oom_kills() == 2


def test_a_hierarchy_that_refuses_holds_nothing(monkeypatch):
    monkeypatch.setattr(cgroup, "seats", lambda: {"memory": Seat(Path("/proc/nowhere"), 1)})
    group = Cgroup("run", LIMITS)
    assert group.held == frozenset()
    assert group.oom_kills() == 0
    group.join([1])
    group.remove()


def test_a_group_names_the_process_that_made_it(seat):
    root = seat(1)
    Cgroup("run", LIMITS)
    (root / "strop-other-0123abcd").mkdir()
    (folder,) = [path for path in root.iterdir() if path.name != "strop-other-0123abcd"]
    assert list(cgroup.marked()) == [(folder, host.token())]


@pytest.mark.skipif(not cgroup.seats(), reason="no control group here is ours")
def test_a_real_group_is_joined_and_removed():
    owner = f"real-{os.getpid()}"
    group = Cgroup(owner, LIMITS)
    assert group.held
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        group.join([child.pid])
        inside = Path(f"/proc/{child.pid}/cgroup").read_text()
        child.kill()
    assert "/strop-" in inside
    group.remove()
    assert cgroup.leftovers(owner) == []
