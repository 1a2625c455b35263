import os

from harness.box.base import BoxSpec, Command, Mount
from harness.box.process import ProcessBoxes
from harness.box.reaper import folders
from harness.testing.box_contract import BoxContract


class TestProcessBoxes(BoxContract):
    def boxes(self):
        return ProcessBoxes()


async def test_it_says_that_it_isolates_nothing():
    boxes = ProcessBoxes()
    assert (boxes.name, boxes.isolated) == ("process", False)
    assert boxes.enforcement()["isolation"] == "no isolation"


async def test_folders_are_mapped_and_removed(tmp_path):
    (tmp_path / "f").write_text("mounted")
    owner = f"mapped-{os.getpid()}"
    spec = BoxSpec(owner=owner, mounts=(Mount(tmp_path, "/data/big"),))
    async with ProcessBoxes().open(spec) as box:
        source = (
            "import os, sys; print(open(sys.argv[1]).read(), os.getcwd() == sys.argv[2] == os.environ['STROP_OUT'])"
        )
        done = await box.exec(Command(("python", "-c", source, "/data/big/f", "/out"), 5, cwd="/out"))
        assert done.stdout == b"mounted True\n", done.stderr
        assert len(folders([owner])) == 1
    assert folders([owner]) == []
