"""The run folder's lock: one owner, named to everybody else, and freed with its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from harness.archive.lock import FILE_NAME, RunLock, holder
from harness.errors import RunBusyError, StorageError

HOLD = "import sys; from pathlib import Path; from harness.archive.lock import RunLock\n"
HOLD += "with RunLock(Path(sys.argv[1])):\n    print('held', flush=True); sys.stdin.read()"


def held_by_another(folder) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def test_nobody_is_nobody(tmp_path):
    assert holder(tmp_path) is None
    assert holder(tmp_path / "gone") is None


def test_the_owner_is_named_and_leaves_nothing(tmp_path):
    with RunLock(tmp_path):
        found = holder(tmp_path)
        assert found is not None
        assert found.pid == os.getpid()
        with pytest.raises(RunBusyError, match=f"process {os.getpid()} on"), RunLock(tmp_path):
            pass
    assert holder(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_another_process_is_named_until_it_ends(tmp_path):
    with held_by_another(tmp_path) as child:
        with pytest.raises(RunBusyError) as raised, RunLock(tmp_path):
            pass
        assert f"process {child.pid} " in raised.value.holder
        child.communicate("")
    with RunLock(tmp_path):
        pass


def test_kill_9_frees_it(tmp_path):
    with held_by_another(tmp_path) as child:
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert child.stdin is not None
        child.stdin.close()
    assert (tmp_path / FILE_NAME).exists()
    assert holder(tmp_path) is None
    with RunLock(tmp_path):
        found = holder(tmp_path)
        assert found is not None
        assert found.pid == os.getpid()


def test_looking_never_takes_it_from_an_owner(tmp_path):
    (tmp_path / FILE_NAME).write_text("")
    for _ in range(20):
        assert holder(tmp_path) is None
        with RunLock(tmp_path):
            assert holder(tmp_path) is not None


@pytest.mark.parametrize("content", ["", "{}", "[]", "nonsense", '{"pid": "x"}', "\x00" * 5000])
def test_a_damaged_lock_file_is_no_obstacle(tmp_path, content):
    (tmp_path / FILE_NAME).write_text(content)
    with RunLock(tmp_path):
        assert holder(tmp_path) is not None


def test_a_link_in_its_place_is_not_followed(tmp_path):
    (tmp_path / "target").write_text("mine")
    (tmp_path / FILE_NAME).symlink_to(tmp_path / "target")
    with pytest.raises(StorageError), RunLock(tmp_path):
        pass
    assert (tmp_path / "target").read_text() == "mine"


def test_a_folder_that_is_gone(tmp_path):
    with pytest.raises(StorageError), RunLock(tmp_path / "gone"):
        pass
