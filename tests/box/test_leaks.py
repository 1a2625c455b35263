"""A hundred rollouts, and nothing is more than it was; `benchmarks/boxes.py --leak 1000` is the long form."""

import warnings

import pytest
from support.engine import gone, image, needs_docker

from harness.box.docker import DockerBoxes
from harness.box.embedded import EmbeddedBoxes
from harness.box.pool import Pool
from harness.testing.leaks import held, rollouts, settled


async def some(make, count, owner):
    boxes = make()
    await boxes.prepare()
    async with Pool(boxes) as pool:
        await rollouts(pool, count, owner=owner)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(EmbeddedBoxes, id="embedded"),
        pytest.param(lambda: DockerBoxes(image()), id="docker", marks=needs_docker()),
    ],
)
async def test_a_hundred_rollouts_leave_nothing(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the docker SDK's sockets, collected within
        await some(make, 8, "leaks")
        before = held()
        await some(make, 100, "leaks")
        after = await settled(before)
    assert after.no_more_than(before), (before, after)
    assert after.memory_kb < before.memory_kb + 4096
    if make is not EmbeddedBoxes:
        assert gone("leaks")
