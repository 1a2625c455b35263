"""Tampering with a finished run: whatever is changed, `verify` says so and names the first record that differs."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest
from support.toy import make_toy

from harness import open_run
from harness.archive.ledger import ZEROS, link
from harness.archive.schema import LEDGER, as_ledger, ledger_row
from harness.archive.sqlite import SqliteArchive
from harness.errors import InputError, IntegrityError
from harness.repo.store import FOLDER_NAME, TreeStore
from harness.research.verify import settle_anchor, verify
from harness.tree import File, Tree


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A short run that kept something, to be copied and spoiled."""
    top = tmp_path_factory.mktemp("verify")
    subject = make_toy(top / "toy")

    async def main() -> Path:
        settings = {"box.backend": "embedded", "budget.steps": 6}
        async with open_run(subject, seed=3, workers=1, overrides=settings, runs=top / "runs") as run:
            async for _ in run.events:
                pass
            return run.folder

    return anyio.run(main)


@pytest.fixture
def run(finished, tmp_path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def edit(run: Path, statement: str, *values) -> None:
    connection = sqlite3.connect(run / "run.db")
    with connection:
        assert connection.execute(statement, values).rowcount > 0
    connection.close()


def git(run: Path, *argv: str, stdin: bytes = b"") -> str:
    done = subprocess.run(["git", *argv], cwd=run / FOLDER_NAME, input=stdin, capture_output=True, check=True)
    return done.stdout.decode().strip()


async def first_bad(run: Path) -> str:
    with pytest.raises(IntegrityError) as raised:
        await verify(run)
    return raised.value.record


def rewrite(run: Path, change) -> list:
    """Forge the whole ledger anew after `change(kind, body)`, as somebody with write access to run.db could."""
    connection = sqlite3.connect(run / "run.db")
    rows = [as_ledger(row) for row in connection.execute(f"SELECT {LEDGER} FROM ledger ORDER BY seq")]
    head, forged = (0, ZEROS, ZEROS), []
    for row in rows:
        body = None if row.body is None else json.loads(json.dumps(row.body))
        change(row.kind, body)
        forged.append(link(head, row.kind, row.ticket, body, row.obs))
        head = (forged[-1].seq, forged[-1].hash, forged[-1].seal)
    with connection:
        connection.execute("DELETE FROM ledger")
        for row in forged:
            connection.execute("INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?)", ledger_row(row))
    connection.close()
    return forged


async def anchored_anew(run: Path, row) -> None:
    store = TreeStore(run / FOLDER_NAME)
    await store.open()
    await store.anchor(row.hash, row.seal, row.seq)


async def test_a_sound_run_is_sound(run):
    report = await verify(run)
    assert report.tickets == 6
    assert report.rollouts >= 7
    assert report.trees >= 8
    assert report.anchor_lag == 0
    assert report.as_json()["hash"] == report.hash


async def test_verify_changes_nothing(run):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and "run.db-" not in path.name}
    await verify(run)
    assert {
        path: path.read_bytes() for path in run.rglob("*") if path.is_file() and "run.db-" not in path.name
    } == before


async def test_a_read_only_copy_is_verified_without_a_trace(run):
    code = (
        "import ctypes, os, sys\nfrom pathlib import Path\nimport anyio\nfrom harness.research.verify import verify\n"
        # root passes every permission check, so its capabilities are dropped
        "header = (ctypes.c_uint32 * 2)(0x20080522, 0)\n"
        "os.geteuid() or ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)())\n"
        "print(anyio.run(verify, Path(sys.argv[1])).tickets)\n"
    )
    for suffix in ("-shm", "-wal"):
        (run / f"run.db{suffix}").unlink(missing_ok=True)
    before = sorted(run.rglob("*"))
    folders = [run, *(path for path in before if path.is_dir())]
    for path in folders:
        path.chmod(0o555)
    try:
        argv = [sys.executable, "-c", code, str(run)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: ASYNC221 - nothing else runs
    finally:
        for path in folders:
            path.chmod(0o755)
    assert done.stdout == "6\n", done.stderr
    assert sorted(run.rglob("*")) == before


@pytest.mark.parametrize(
    ("statement", "record"),
    [
        ("UPDATE ledger SET body = replace(body, 'seed', 'sead') WHERE seq = 1", "ledger 1"),
        ("UPDATE ledger SET body = json_set(body, '$.decision.verdict', 'kept2') WHERE ticket = 2", "ticket 2"),
        ("UPDATE ledger SET obs = '{}' WHERE ticket = 3", "ticket 3"),
        ("DELETE FROM ledger WHERE ticket = 4", "ticket 4"),
        ("DELETE FROM ledger WHERE kind = 'session' AND seq = 2", "ledger 2"),
    ],
)
async def test_an_edited_ledger_row_is_named(run, statement, record):
    kind, _, number = record.partition(" ")
    if kind == "ticket":
        async with aclosing(await SqliteArchive.view(run)) as archive:
            row = await archive.ticket(int(number))
            assert row is not None
            record = f"ledger {row.seq}"
    edit(run, statement)
    assert await first_bad(run) == record


@pytest.mark.parametrize("cut", [1, 2, 5])
async def test_a_cut_ledger_is_found_through_the_anchor(run, cut):
    async with aclosing(await SqliteArchive.view(run)) as archive:
        length = (await archive.head_at())[0]
    edit(run, "DELETE FROM ledger WHERE seq > ?", length - cut)
    assert await first_bad(run) == f"ledger {length - cut + 1}"
    async with aclosing(await SqliteArchive.open(run)) as archive:
        store = TreeStore(run / FOLDER_NAME)
        await store.open()
        with pytest.raises(IntegrityError, match="cut"):
            await settle_anchor(archive, store)


async def test_a_ledger_forged_whole_is_found_through_the_anchor(run):
    def better(kind, body):
        if kind == "root":
            body["score"] = 0.9

    forged = rewrite(run, better)
    assert await first_bad(run) == f"ledger {len(forged)}"


async def test_an_anchor_that_is_gone_is_named(run):
    git(run, "update-ref", "-d", "refs/strop/head")
    assert await first_bad(run) == "anchor refs/strop/head"


async def test_a_lagging_anchor_is_reported_and_settled(run):
    async with aclosing(await SqliteArchive.open(run)) as archive:
        await archive.append("session", None, {"event": "resume"})
        assert (await verify(run)).anchor_lag == 1
        store = TreeStore(run / FOLDER_NAME)
        await store.open()
        assert await settle_anchor(archive, store) == 1
        assert await settle_anchor(archive, store) == 0
    assert (await verify(run)).anchor_lag == 0


@pytest.mark.parametrize(
    ("statement", "record"),
    [
        ("UPDATE variants SET score = 0.0 WHERE ticket = 2", "variant v2"),
        ("UPDATE variants SET tree = ? WHERE ticket = 2", "variant v2"),
        ("DELETE FROM variants WHERE ticket = 1", "variant v1"),
        (
            "INSERT INTO variants SELECT 'v99', 99, tree, parents, verdict, score, note FROM variants LIMIT 1",
            "variant v99",
        ),
        ("UPDATE attempts SET score = 0.0 WHERE ticket = 2", "attempt 2"),
        ("UPDATE attempts SET note = 'x' WHERE ticket = 3", "attempt 3"),
        ("DELETE FROM attempts WHERE ticket = 6", "attempt 6"),
        ("UPDATE proposals SET memo = '{\"x\":1}' WHERE ticket = 1", "proposal 1"),
        ("DELETE FROM proposals WHERE ticket = 1", "proposal 1"),
        ("UPDATE rollouts SET score = 0.0 WHERE n = 1", "rollout"),
        ("UPDATE rollouts SET items = '{}' WHERE n = 2", "rollout"),
        ("UPDATE rollouts SET outputs = '' WHERE n = 3", "rollout"),
        ("UPDATE rollouts SET seed = 5 WHERE n = 1", "rollout"),
        ("UPDATE rollouts SET status = 'timeout', score = NULL WHERE n = 1", "rollout"),
        ("UPDATE rollouts SET status = NULL WHERE n = 1", "rollout"),
        ("DELETE FROM rollouts WHERE purpose = 'vault'", "rollout"),
    ],
)
async def test_a_table_that_disagrees_with_the_ledger_is_named(run, statement, record):
    edit(run, statement, *(["f" * 40] if "?" in statement else []))
    found = await first_bad(run)
    assert found == record or (record == "rollout" and found.startswith("rollout "))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rollouts SET detail = 'it was well' WHERE n = 2",
        "UPDATE rollouts SET wall_s = 0.0 WHERE n = 2",
        "UPDATE rollouts SET cpu_s = 0.0 WHERE n = 2",
        "UPDATE rollouts SET memory_mb = 1e9 WHERE n = 2",
        "UPDATE rollouts SET sealed = NULL WHERE n = 2",
        "UPDATE rollouts SET sealed = 4000 WHERE n = 2",
    ],
)
async def test_what_a_rollout_took_and_said_is_sealed_as_well(run, statement):
    edit(run, statement)
    assert (await first_bad(run)).startswith("the rollouts that ledger ")


async def test_a_note_beside_the_ledger_that_cannot_be_read_is_found(run):
    edit(run, "INSERT INTO meta VALUES ('junk', '{')")
    assert await first_bad(run) == "run.db"


async def test_a_missing_object_is_named_with_its_variant(run):
    async with aclosing(await SqliteArchive.view(run)) as archive:
        tree = (await archive.variants())[0].tree
    loose = run / FOLDER_NAME / "objects" / tree[:2] / tree[2:]
    loose.unlink()
    assert (await first_bad(run)).endswith(f"object {tree}")


async def test_every_object_is_hashed_again(run):
    store = TreeStore(run / FOLDER_NAME)
    await store.view()
    other = Tree({"train.py": File(b"print('mine')\n")})
    async with aclosing(await SqliteArchive.view(run)) as archive:
        variants = await archive.variants()
    blob = git(run, "rev-parse", f"{variants[-1].tree}:train.py")
    await store.write(other)
    forged = git(run, "hash-object", "-t", "blob", "--stdin", stdin=b"print('mine')\n")
    place = run / FOLDER_NAME / "objects" / blob[:2] / blob[2:]
    place.chmod(0o644)
    shutil.copyfile(run / FOLDER_NAME / "objects" / forged[:2] / forged[2:], place)
    assert f"object {blob}" in await first_bad(run)


@pytest.mark.parametrize("junk", [b"", b"junk", b"x\x9c\x00"])
async def test_damaged_objects_of_the_eval_are_named(run, junk):
    async with aclosing(await SqliteArchive.view(run)) as archive:
        body = (await archive.ledger())[0].body
    assert body is not None
    pinned = body["pinned"]
    assert isinstance(pinned, dict)
    tree = str(pinned["holdout.labels"])
    place = run / FOLDER_NAME / "objects" / tree[:2] / tree[2:]
    place.chmod(0o644)
    place.write_bytes(junk)
    assert tree in await first_bad(run)


async def test_a_ref_that_was_moved_or_removed_is_named(run):
    root = git(run, "rev-parse", "refs/strop/root")
    git(run, "update-ref", "refs/strop/pinned/scorer", root)
    assert await first_bad(run) == "ref refs/strop/pinned/scorer"
    git(run, "update-ref", "-d", "refs/strop/root")
    assert await first_bad(run) == "ref refs/strop/root"


async def test_a_forged_eval_differs_from_the_digest_in_the_ledger(run):
    """Chains, anchor and refs all forged to fit another scorer: the digest still tells."""
    store = TreeStore(run / FOLDER_NAME)
    await store.open()
    forged_scorer = await store.write(Tree({"score.py": File(b"print('perfect')\n")}))
    git(run, "update-ref", "-d", "refs/strop/pinned/scorer")
    await store.keep("pinned/scorer", forged_scorer)

    def swap(kind, body):
        if kind == "run":
            body["pinned"]["scorer"] = forged_scorer

    await anchored_anew(run, rewrite(run, swap)[-1])
    assert await first_bad(run) == "pinned scorer tree"


async def test_a_variant_outside_the_editable_paths_is_named(run):
    """Everything forged to fit a variant that changed a locked file: the locks are judged again."""
    store = TreeStore(run / FOLDER_NAME)
    await store.open()
    async with aclosing(await SqliteArchive.view(run)) as archive:
        victim = (await archive.variants())[-1]
    tree = await store.write((await store.read(victim.tree)).changed({"lib.py": b"ANSWER = 43\n"}))
    git(run, "update-ref", "-d", f"refs/strop/variants/{victim.id}")
    await store.keep(f"variants/{victim.id}", tree)

    def swap(kind, body):
        if kind == "ticket" and body["variant"] and body["variant"]["id"] == victim.id:
            body["variant"]["tree"] = tree
            body["proposal"]["tree"] = tree

    await anchored_anew(run, rewrite(run, swap)[-1])
    edit(run, "UPDATE variants SET tree = ? WHERE id = ?", tree, victim.id)
    edit(run, "UPDATE proposals SET tree = ? WHERE ticket = ?", tree, victim.ticket)
    assert await first_bad(run) == f"variant {victim.id}"


async def test_what_is_no_run_is_an_input_error(tmp_path):
    with pytest.raises(InputError):
        await verify(tmp_path)


async def test_what_differs_is_named_by_its_field_and_not_as_a_whole_record(run):
    edit(run, "UPDATE variants SET note = 'x' WHERE ticket = 2")
    with pytest.raises(IntegrityError) as raised:
        await verify(run)
    assert raised.value.expected.startswith("note ")
    assert raised.value.found == "note x"
