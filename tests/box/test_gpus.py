import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from support.engine import gone, image, needs_docker

from harness.box import gpus
from harness.box.base import BoxSpec
from harness.box.docker import DockerBoxes
from harness.box.embedded import EmbeddedBoxes
from harness.box.gpus import leased, nodes
from harness.errors import BoxUnavailableError, InputError
from harness.policy.load import override
from harness.policy.schema import Policy
from harness.testing.box_contract import python

CARD = Path("/dev/nvidia0").exists()


@pytest.fixture(autouse=True)
def own_leases(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture
def devices(monkeypatch, tmp_path):
    """Files in place of nodes: what is bound where can be seen without a card."""
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    dev = tmp_path / "dev"
    dev.mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-caps"):
        (dev / name).write_text(name)
    monkeypatch.setattr(gpus, "DEV", dev)


async def test_a_device_is_one_rollouts_at_a_time():
    async with leased(("0", "1")) as first, leased(("0", "1")) as second:
        assert {*first, *second} == {"0", "1"}
        with anyio.move_on_after(0.2) as waited:
            async with leased(("0", "1")):
                pytest.fail("there is no third")
        assert waited.cancelled_caught
    async with leased(("1",)) as again:
        assert again == ("1",)
        with anyio.move_on_after(0.2) as waited:
            async with leased(("all",)):
                pytest.fail("one is taken")
        assert waited.cancelled_caught
    async with leased(("all",)) as whole:
        assert whole == ("all",)
        with anyio.move_on_after(0.2) as waited:
            async with leased(("0",)):
                pytest.fail("all are taken")
        assert waited.cancelled_caught
    async with leased(()) as none, leased(()):
        assert none == ()


HOLDER = """
import anyio
from harness.box.gpus import leased
async def main():
    async with leased(("0",)):
        print("held", flush=True)
        await anyio.sleep(600)
anyio.run(main)
"""


def started(environment):
    return subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, env=environment)


async def test_a_lease_holds_against_other_processes_and_ends_with_its_own(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with started(environment) as process:
        assert process.stdout.readline() == b"held\n"
        async with leased(("0", "1")) as other:
            assert other == ("1",)
        process.kill()
        process.wait()
    with anyio.fail_after(5):
        async with leased(("0",)) as freed:
            assert freed == ("0",)


async def test_leases_are_for_every_user(tmp_path):
    async with leased(("0",)):
        pass
    folder = tmp_path / "strop-gpus"
    assert folder.stat().st_mode & 0o7777 == 0o1777
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {"0": 0o666, "all": 0o666}
    (folder / "0").unlink()
    (folder / "0").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BoxUnavailableError):
        async with leased(("0",)):
            pass


async def test_an_embedded_box_sees_its_device_and_no_other(devices):
    async with EmbeddedBoxes().open(BoxSpec(owner="gpu", gpus=("1",))) as box:
        source = (
            "import os; print([n for n in sorted(os.listdir('/dev')) if 'nvidia' in n], open('/dev/nvidia1').read())"
        )
        assert (await python(box, source)).stdout == b"['nvidia-uvm', 'nvidia1', 'nvidiactl'] nvidia1\n"
    async with EmbeddedBoxes().open(BoxSpec(owner="gpu", gpus=("all",))) as box:
        done = await python(box, "import os; print(len([n for n in os.listdir('/dev') if 'nvidia' in n]))")
        assert done.stdout == b"4\n"
    async with EmbeddedBoxes().open(BoxSpec(owner="gpu", gpus=("1",), reusable=True)) as box:
        assert (await python(box, "import os; print(os.path.exists('/dev/nvidia1'))")).stdout == b"False\n"


def test_a_device_that_is_not_here_is_said(devices):
    for wanted in (("7",), ("GPU-8932f937-d72c",)):
        with pytest.raises(BoxUnavailableError) as caught:
            nodes(wanted)
        assert "0, 1" in caught.value.reason


@needs_docker()
async def test_docker_is_asked_for_the_device_and_what_it_refuses_is_said():
    boxes = DockerBoxes(image())
    await boxes.prepare()

    def asked(*devices):
        recipe = boxes._recipe(boxes._engine._api, "n", BoxSpec(owner="gpu"), devices)
        return recipe["host_config"].get("DeviceRequests")

    (one,), (whole,) = asked("1"), asked("all")
    assert (one["DeviceIDs"], one["Count"], one["Capabilities"]) == (["1"], 0, [["gpu"]])
    assert (whole["DeviceIDs"], whole["Count"]) == ([], -1)
    assert not asked()
    owner = f"gpu-{os.getpid()}"
    if not CARD:
        with pytest.raises(BoxUnavailableError) as caught:
            async with boxes.open(BoxSpec(owner=owner, gpus=("0",))):
                pass
        assert "container toolkit" in caught.value.mend
    assert gone(owner)


def test_gpus_by_policy():
    assert "gpus" not in Policy().model_dump()["box"]
    assert override(Policy(), {"box.gpus": "all"}).box.gpus == "all"
    assert override(Policy(), {"box.gpus": ["0", "GPU-8932f937-d72c"]}).box.gpus == ("0", "GPU-8932f937-d72c")
    for wrong in ("some", ["-1"], ["../0"], [""]):
        with pytest.raises(InputError):
            override(Policy(), {"box.gpus": wrong})
