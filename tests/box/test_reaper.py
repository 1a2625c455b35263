import os
import subprocess
import sys

from harness.box.reaper import folders, labelled, reap, remove_tree


def test_processes_and_folders_of_dead_owners_go(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dead = f"dead-{os.getpid()}"
    ours = tmp_path / f"strop-box-{dead}-0123abcd"
    others = [tmp_path / name for name in (f"strop-box-{dead}-2-0123abcd", "strop-box-live-0123abcd", dead)]
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
