import os
import subprocess
import sys

from harness.box.reaper import folders, reap, remove_tree


def test_processes_and_folders_of_dead_owners_go(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ours = tmp_path / "strop-box-dead-0123abcd"
    others = [tmp_path / name for name in ("strop-box-dead-2-0123abcd", "strop-box-live-0123abcd", "dead")]
    for folder in (ours, *others):
        (folder / "work").mkdir(parents=True)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "strop-box:dead"])
    assert folders(["dead"]) == [ours]
    assert folders([]) == []
    assert reap(["dead"]) == 2
    assert child.wait(5) == -9
    assert not ours.exists()
    assert all(folder.exists() for folder in others)
    assert reap(["dead"]) == 0


def test_a_hostile_folder_is_removed_and_nothing_else(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    top = tmp_path / "top"
    top.mkdir()
    (top / "link").symlink_to(outside)
    os.mkfifo(top / "fifo")
    make = "import os, sys\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')\nos.symlink(sys.argv[1], 'link')"
    subprocess.run([sys.executable, "-c", make, outside], cwd=top, check=True)
    (top / "closed").mkdir(mode=0)
    remove_tree(top)
    assert not top.exists()
    assert (outside / "kept").exists()
