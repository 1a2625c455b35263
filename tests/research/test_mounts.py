"""Mounted folders: seen read-only, pinned by content, and held against that."""

import json
import os

import pytest
from support.toy import STROP, TRAIN, make_toy

from harness import open_run, resume_run
from harness.archive.sqlite import SqliteArchive
from harness.errors import InputError, IntegrityError
from harness.events import TicketDecided
from harness.policy.load import override
from harness.policy.schema import Policy
from harness.research.verify import verify

READING = TRAIN + 'assert Path("/data/big/deep/seed").read_text() == "7"\n'
WRITING = READING + 'try:\n    open("/data/big/deep/seed", "w")\n    raise SystemExit(9)\nexcept OSError:\n    pass\n'


@pytest.fixture
def mounted(tmp_path):
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    big = tmp_path / "big"
    (big / "deep").mkdir(parents=True)
    (big / "empty").mkdir()
    (big / "deep" / "seed").write_text("7")
    (big / "link").symlink_to("deep/seed")
    make_toy(tmp_path / "toy", train=WRITING, strop=STROP + '[policy.box.mounts]\n"/data/big" = "../big"\n')
    return tmp_path


async def played(folder, each=lambda event: None, *, steps=1):
    chosen = {"box.backend": "embedded", "budget.steps": steps}
    async with open_run(folder / "toy", seed=1, overrides=chosen, runs=folder / "runs") as run:
        async for event in run.events:
            each(event)
    return run


async def test_a_mount_is_seen_read_only_and_is_in_the_ledger(mounted):
    run = await played(mounted)
    assert run.summary["state"] == "finished"
    assert run.summary["vault"]
    archive = await SqliteArchive.view(run.folder)
    try:
        (first, *_) = await archive.ledger()
    finally:
        await archive.aclose()
    assert first.body["pinned"]["mounts"]
    assert first.obs["mounts"] == {"/data/big": str(mounted / "big")}
    report = await verify(run.folder)
    assert (report.mounts, report.mounts_elsewhere) == (1, 0)


async def test_a_run_without_mounts_says_nothing_of_them(tmp_path):
    make_toy(tmp_path / "toy")
    run = await played(tmp_path)
    assert "mounts" not in json.dumps(run.summary.get("policy", {}))
    assert (await verify(run.folder)).mounts == 0
    assert "mounts" not in Policy().model_dump()["box"]


async def test_verify_names_what_changed(mounted):
    run = await played(mounted)
    big = mounted / "big"
    seed, more, empty, link = big / "deep" / "seed", big / "deep" / "more", big / "empty", big / "link"
    changes = [
        ("deep/seed", lambda: seed.write_text("8"), lambda: seed.write_text("7")),
        ("deep/more", lambda: more.write_text("x"), more.unlink),
        ("empty/", empty.rmdir, empty.mkdir),
        ("deep/seed", lambda: seed.chmod(0o755), lambda: seed.chmod(0o644)),
        ("link", lambda: _points(link, "/etc/passwd"), lambda: _points(link, "deep/seed")),
    ]
    for path, change, undo in changes:
        change()
        with pytest.raises(IntegrityError) as caught:
            await verify(run.folder)
        assert caught.value.record == f"mount /data/big: {path}"
        undo()
    assert (await verify(run.folder)).mounts == 1


def _points(link, target):
    link.unlink()
    link.symlink_to(target)


async def test_a_mount_that_is_not_on_this_machine_is_counted(mounted):
    run = await played(mounted)
    (mounted / "big").rename(mounted / "away")
    report = await verify(run.folder)
    assert (report.mounts, report.mounts_elsewhere) == (0, 1)


async def test_a_mount_that_changes_under_a_run_keeps_the_vault_shut_until_it_is_back(mounted):
    def change(event):
        if isinstance(event, TicketDecided):
            (mounted / "big" / "more").write_text("x")

    with pytest.raises(IntegrityError) as caught:
        await played(mounted, change)
    assert caught.value.record == "mount /data/big: more"
    (folder,) = (path for path in (mounted / "runs").iterdir() if path.is_dir())
    with pytest.raises(IntegrityError):
        async with resume_run(folder) as run:
            [event async for event in run.events]
    (mounted / "big" / "more").unlink()
    async with resume_run(folder) as run:
        [event async for event in run.events]
    assert run.summary["vault"]


async def test_what_cannot_be_mounted_is_said_before_anything_is_written(mounted):
    os.mkfifo(mounted / "big" / "fifo")
    with pytest.raises(InputError, match="fifo"):
        await played(mounted)
    make_toy(mounted / "toy", strop=STROP + '[policy.box.mounts]\n"/data/big" = "../none"\n')
    with pytest.raises(InputError, match="not a folder"):
        await played(mounted)
    assert not (mounted / "runs").exists()


def test_where_a_mount_may_lie():
    for at in ("/data/x", "/data/x/y.z", "/mnt/a", "/models", "/datasets/a-b/c", "/srv"):
        assert override(Policy(), {"box.mounts": {at: "."}}).box.mounts == {at: "."}
    for at in (
        "/data",
        "data/x",
        "/usr/x",
        "/work/x",
        "/data/../etc",
        "/data/.x",
        "/data/x/",
        "/mnt//a",
        "/models/..",
        "/",
    ):
        with pytest.raises(InputError):
            override(Policy(), {"box.mounts": {at: "."}})
