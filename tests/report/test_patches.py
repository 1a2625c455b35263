from pathlib import Path

from harness.repo.store import FOLDER_NAME, TreeStore
from harness.report.patches import TREES, Patches
from harness.tree import File, Tree


async def test_each_tree_is_read_once_and_shown_encoded(tmp_path: Path, monkeypatch):
    store = TreeStore(tmp_path / FOLDER_NAME)
    await store.create()
    trees = [Tree({"a.py": File(text)}) for text in (b"x = 1\n", b"x = 2\n", b"x = '\x1b[31m'\n")]
    names = [await store.write(tree) for tree in trees]
    reads = []
    read = TreeStore.read

    async def counted(self, name):
        reads.append(name)
        return await read(self, name)

    monkeypatch.setattr(TreeStore, "read", counted)
    patches = Patches(tmp_path)
    assert "-x = 1\n+x = 2\n" in await patches.between(names[0], names[1])
    assert "\\x1b[31m" in await patches.between(names[0], names[2])
    assert await patches.between(names[0], names[0]) == ""
    assert sorted(reads) == sorted(names)


async def test_a_long_run_does_not_keep_every_tree(tmp_path: Path):
    store = TreeStore(tmp_path / FOLDER_NAME)
    await store.create()
    names = [await store.write(Tree({"a.py": File(b"%d\n" % number)})) for number in range(12)]
    patches = Patches(tmp_path)
    for name in names[1:]:
        assert await patches.between(names[0], name) != ""
    assert len(patches._trees) == TREES
