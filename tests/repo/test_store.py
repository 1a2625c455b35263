"""TreeStore: what is written is read, by its git id; damage is found; nobody's configuration takes part."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import InputError, IntegrityError, StorageError
from harness.repo.objects import decode_folder, encode, is_object_id
from harness.repo.store import PACK_FROM, ZEROS, TreeStore
from harness.tree import File, Tree

TREE = Tree(
    {
        "a.py": File(b"x = 1\n"),
        "a/b": File(b""),
        "a-b": File(b"sorts between a and a/"),
        "d/e/\u00e9 \u65e5.txt": File(b"\0\xff", executable=True),
    }
)
TREE = TREE.without(["a/b"]).changed({"a0/b": b"", "a.d/c": b"1"})


async def made(folder: Path) -> TreeStore:
    store = TreeStore(folder / "archive.git")
    await store.create()
    return store


def many(count: int, salt: str = "") -> Tree:
    return Tree({f"d{n % 7}/f{n}": File(f"{salt}{n}\n".encode() * 50, n % 3 == 0) for n in range(count)})


def git(folder: Path, *argv: str, stdin: bytes = b"") -> str:
    return (
        subprocess.run(["git", *argv], cwd=folder, input=stdin, check=True, capture_output=True, text=False)
        .stdout.decode()
        .strip()
    )


@pytest.mark.parametrize("tree", [Tree(), TREE, many(PACK_FROM + 1), many(200)], ids=len)
async def test_a_tree_comes_back_as_it_was(tmp_path, tree):
    store = await made(tmp_path)
    tree_id = await store.write(tree)
    assert await store.read(tree_id) == tree
    assert await store.write(tree) == tree_id
    again = TreeStore(store.path)
    await again.view()
    assert await again.read(tree_id) == tree


async def test_git_agrees_about_every_id(tmp_path):
    store = await made(tmp_path)
    for tree in (TREE, many(100)):
        tree_id = await store.write(tree)
        folder = tmp_path / f"laid{len(tree)}"
        for path, file in tree.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.data)
            place.chmod(0o755 if file.executable else 0o644)
        git(folder, "init", "-q")
        git(folder, "add", "-A")
        assert git(folder, "write-tree") == tree_id
        await store.keep(f"t{len(tree)}", tree_id)
    git(store.path, "fsck", "--strict", "--full")


paths = st.lists(st.sampled_from(["a", "b", "a.b", "a-b", "a0", "\u00e9"]), min_size=1, max_size=3).map("/".join)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(paths, st.builds(File, st.binary(max_size=3), st.booleans()), max_size=8))
def test_encoding_and_decoding_are_inverse(files):
    files = {path: file for path, file in files.items() if not any(other.startswith(path + "/") for other in files)}
    whole, objects = encode(Tree(files))

    def walk(tree_id, prefix):
        for name, kind, child in decode_folder(tree_id, objects[tree_id][1]):
            if kind == "folder":
                yield from walk(child, f"{prefix}{name}/")
            else:
                yield prefix + name, File(objects[child][1], kind == "executable")

    assert dict(walk(whole, "")) == files


@pytest.mark.parametrize(
    "data",
    [
        b"120000 link\0" + b"a" * 20, b"160000 sub\0" + b"a" * 20, b"100644 a/b\0" + b"a" * 20,
        b"40000 ..\0" + b"a" * 20,
        b"100644 \0" + b"a" * 20, b"100644 a\0short", b"100644 a", b"nonsense", b"100664 a\0" + b"a" * 20, b"\0", b" ",
    ],
)  # fmt: skip
def test_a_tree_object_the_door_would_not_have_let_in_is_refused(data):
    with pytest.raises(IntegrityError):
        decode_folder("f" * 40, data)


async def test_a_listing_has_ids_for_data(tmp_path):
    store = await made(tmp_path)
    tree_id = await store.write(TREE)
    listed = await store.listing(tree_id)
    assert [(path, file.executable) for path, file in listed.items()] == [(p, f.executable) for p, f in TREE.items()]
    assert listed["a.py"].data.decode() == git(store.path, "rev-parse", f"{tree_id}:a.py")


async def test_a_child_costs_only_what_changed(tmp_path):
    store = await made(tmp_path)
    tree = many(200)
    await store.write(tree)
    before = {path for path in store.path.rglob("*") if path.is_file()}
    await store.write(tree.changed({"d0/f0": b"new"}))
    added = {path for path in store.path.rglob("*") if path.is_file()} - before
    assert len(added) == 3


async def test_two_hundred_files_take_no_time(tmp_path):
    store = await made(tmp_path)
    times = []
    for salt in "abc":
        tree = many(200, salt)
        started = time.perf_counter()
        await store.write(tree)
        times.append(time.perf_counter() - started)
    # 25 ms on an idle machine; the bound is for a crowded one
    assert min(times) < 0.5


async def test_damage_is_found_on_reading(tmp_path):
    store = await made(tmp_path)
    tree_id = await store.write(TREE)
    blob = git(store.path, "rev-parse", f"{tree_id}:a.py")
    other = git(store.path, "rev-parse", f"{tree_id}:a-b")
    place = store.path / "objects" / blob[:2] / blob[2:]
    sound = place.read_bytes()
    place.chmod(0o644)
    for damaged in (
        b"",
        sound[: len(sound) // 2],
        b"junk",
        (store.path / "objects" / other[:2] / other[2:]).read_bytes(),
    ):
        place.write_bytes(damaged)
        with pytest.raises(IntegrityError, match=blob):
            await store.read(tree_id)
        with pytest.raises(IntegrityError, match=blob):
            await store.check(tree_id, set())
    place.unlink()
    with pytest.raises(IntegrityError, match=blob):
        await store.read(tree_id)
    with pytest.raises(IntegrityError, match="f" * 40):
        await store.read("f" * 40)
    with pytest.raises(IntegrityError):
        await store.read(other)


@pytest.mark.parametrize("name", ["", "x", "../../etc/passwd", "HEAD", "f" * 39, "F" * 40, "f" * 41, "f" * 40 + "\n"])
async def test_what_is_no_id_is_refused(tmp_path, name):
    assert not is_object_id(name)
    store = await made(tmp_path)
    with pytest.raises(IntegrityError):
        await store.read(name)


async def test_damage_in_a_pack_is_found(tmp_path):
    store = await made(tmp_path)
    tree_id = await store.write(many(100))
    (pack,) = store.path.glob("objects/pack/*.pack")
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 0xFF
    pack.chmod(0o644)
    pack.write_bytes(bytes(data))
    again = TreeStore(store.path)
    await again.view()
    with pytest.raises(IntegrityError):
        await again.read(tree_id)


async def test_a_kept_tree_survives_gc_and_is_kept_once(tmp_path):
    store = await made(tmp_path)
    kept, lost = await store.write(TREE), await store.write(Tree({"x": File(b"lost")}))
    await store.keep("variants/v1", kept)
    await store.keep("variants/v1", kept)
    with pytest.raises(IntegrityError, match="variants/v1"):
        await store.keep("variants/v1", lost)
    git(store.path, "gc", "-q", "--prune=now")
    assert await store.read(kept) == TREE
    assert await store.kept() == {"variants/v1": kept}
    with pytest.raises(IntegrityError):
        await store.read(lost)
    with pytest.raises(IntegrityError):
        await store.keep("variants/v2", "f" * 40)


async def test_the_same_tree_is_kept_by_the_same_commit_anywhere(tmp_path):
    heads = set()
    for name in "ab":
        store = await made(tmp_path / name)
        await store.keep("root", await store.write(TREE))
        heads.add(git(store.path, "rev-parse", "refs/strop/root"))
    assert len(heads) == 1


async def test_the_anchor_starts_at_nothing_and_moves(tmp_path):
    store = await made(tmp_path)
    assert await store.anchored() == (ZEROS, ZEROS, 0)
    for seq in (1, 2, 2, 3):
        await store.anchor("a" * 64, f"{seq}" * 64, seq)
    again = TreeStore(store.path)
    await again.open()
    assert await again.anchored() == ("a" * 64, "3" * 64, 3)
    await again.anchor("b" * 64, "4" * 64, 4)
    # the first one lost its hold: its next move is refused instead of winding the anchor back
    with pytest.raises(StorageError):
        await store.anchor("c" * 64, "5" * 64, 5)
    assert await again.anchored() == ("b" * 64, "4" * 64, 4)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"hash": 1}', b"\xff"])
async def test_an_anchor_that_says_nothing_is_an_integrity_error(tmp_path, content):
    store = await made(tmp_path)
    blob = git(store.path, "hash-object", "-w", "--stdin", stdin=content)
    git(store.path, "update-ref", "refs/strop/head", blob)
    with pytest.raises(IntegrityError, match="anchor"):
        await store.anchored()


async def test_what_a_dead_owner_left_is_removed_by_the_next_owner_only(tmp_path):
    store = await made(tmp_path)
    await store.keep("root", await store.write(TREE))
    left = [store.path / "refs/strop/head.lock", store.path / "packed-refs.lock", store.path / "objects/ab/tmp_obj_x"]
    left.append(store.path / "objects/pack/tmp_pack_x")
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    viewer = TreeStore(store.path)
    await viewer.view()
    assert all(path.exists() for path in left)
    owner = TreeStore(store.path)
    await owner.open()
    assert not any(path.exists() for path in left)
    await owner.anchor("a" * 64, "b" * 64, 1)


KILLED = textwrap.dedent("""
    import sys
    from pathlib import Path
    import anyio
    from harness.repo.store import TreeStore
    from harness.tree import File, Tree

    async def main():
        store = TreeStore(Path(sys.argv[1]))
        await store.open()
        tree = await store.write(Tree({f"f{n}": File(sys.argv[2].encode() + bytes([n])) for n in range(5)}))
        await store.keep(f"t{sys.argv[2]}", tree)
        await store.anchor(sys.argv[2] * 64, "b" * 64, int(sys.argv[2]))

    anyio.run(main)
""")


async def test_kill_9_leaves_no_hole(tmp_path):
    store = await made(tmp_path)
    for number, place in enumerate(["object-written:1", "object-written:4", "object-written:7", "anchor-written:1"], 1):
        env = {**os.environ, "STROP_FAILPOINT": place}
        argv = [sys.executable, "-c", KILLED, str(store.path), str(number)]
        assert subprocess.run(argv, env=env, check=False).returncode == -9  # noqa: ASYNC221 - nothing else runs
        again = TreeStore(store.path)
        await again.open()
        for tree in (await again.kept()).values():
            objects: set[str] = set()
            await again.check(tree, objects)
            assert len(objects) == 6
        anchored = await again.anchored()
        assert anchored is not None
        assert anchored[2] < number
        subprocess.run(argv, check=True)  # noqa: ASYNC221 - nothing else runs
        assert f"t{number}" in await again.kept()


async def test_nobodys_configuration_takes_part(tmp_path, monkeypatch):
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("reference-transaction", "post-checkout", "update", "fsmonitor"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (hooks / name).chmod(0o755)
    (tmp_path / "gitconfig").write_text(f"[core]\nhooksPath = {hooks}\n[init]\ntemplateDir = {hooks}\n[uploadpack]\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path / "objects"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    store = await made(tmp_path / "run")
    tree_id = await store.write(many(60))
    await store.keep("root", tree_id)
    await store.anchor("a" * 64, "b" * 64, 1)
    assert await store.read(tree_id) == many(60)
    assert not {"ran", "elsewhere", "objects", "index", "trace"} & {path.name for path in tmp_path.iterdir()}


async def test_odd_places(tmp_path):
    store = await made(tmp_path / "with $HOME %x sp\u00e4ce 'quote\" \n line")
    assert await store.read(await store.write(TREE)) == TREE


async def test_what_is_no_store_says_so(tmp_path):
    with pytest.raises(InputError, match="holds no trees"):
        await TreeStore(tmp_path / "archive.git").open()
    await made(tmp_path)
    with pytest.raises(InputError, match="already"):
        await made(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StorageError):
        await TreeStore(tmp_path / "file" / "archive.git").create()


FULL = textwrap.dedent("""
    import resource, sys
    from pathlib import Path
    import anyio
    from harness.errors import StorageError
    from harness.repo.store import TreeStore
    from harness.tree import File, Tree

    async def main():
        store = TreeStore(Path(sys.argv[1]))
        await store.open()
        noise = bytes((n * n * 7919) % 251 for n in range(60_000))
        for count in (1, 50):
            tree = Tree({f"f{n}": File(bytes([n]) + noise) for n in range(count)})
            resource.setrlimit(resource.RLIMIT_FSIZE, (300, resource.RLIM_INFINITY))
            try:
                await store.write(tree)
            except StorageError as error:
                print(error.reason)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            assert await store.read(await store.write(tree)) == tree

    anyio.run(main)
""")


async def test_a_full_disk_is_a_storage_error_and_leaves_nothing_half_written(tmp_path):
    store = await made(tmp_path)
    argv = [sys.executable, "-c", FULL, str(store.path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: ASYNC221 - nothing else runs
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2
    assert not list(store.path.rglob("tmp_obj_*"))
