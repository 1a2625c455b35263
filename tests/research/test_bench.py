"""A bench leaves nothing, and sweeps up after those that were killed."""

import os
import tempfile
import time

import pytest
from support.toy import make_toy

from harness.archive.lock import RunLock
from harness.research.bench import bench


def killed(place, name, age_s):
    """A folder as a killed bench leaves it."""
    folder = place / f"strop-bench-{name}"
    (folder / "bench").mkdir(parents=True)
    (folder / "bench" / "run.db").write_text("x")
    then = time.time() - age_s
    os.utime(folder, (then, then))
    return folder


async def test_a_bench_leaves_nothing_and_removes_what_dead_ones_left(tmp_path, monkeypatch):
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    old, young, held = killed(place, "old", 7200), killed(place, "young", 60), killed(place, "held", 7200)
    (place / "strop-bench-link").symlink_to(tmp_path)
    with RunLock(held / "bench"):
        os.utime(held, (time.time() - 7200,) * 2)
        async with bench(make_toy(tmp_path / "toy"), overrides={"box.backend": "embedded"}) as (session, _):
            assert session.hold.folder.parent.parent == place
            assert not old.exists()
            assert young.exists()
            assert held.exists()
    assert sorted(path.name for path in place.iterdir() if path.name.startswith("strop-bench")) == [
        "strop-bench-held",
        "strop-bench-link",
        "strop-bench-young",
    ]


async def test_a_bench_that_fails_leaves_nothing_either(tmp_path, monkeypatch):
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    with pytest.raises(RuntimeError, match="mine"):
        async with bench(make_toy(tmp_path / "toy"), overrides={"box.backend": "embedded"}):
            raise RuntimeError("mine")
    assert not [path for path in place.iterdir() if path.name.startswith("strop-bench")]
