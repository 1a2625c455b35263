import anyio
import pytest

from harness.box.base import BoxSpec
from harness.box.embedded import EmbeddedBoxes
from harness.box.pool import Pool
from harness.box.process import ProcessBoxes
from harness.errors import BoxClosedError, InfraError
from harness.testing.box_contract import BoxContract, python

SPEC = BoxSpec(owner="pool")
SCORER = BoxSpec(owner="pool", reusable=True)


class Counted:
    """A back end that counts what it opened and what is open; the openings in `failing` fail."""

    name, isolated = "process", False

    def __init__(self, failing=()):
        self.inner = ProcessBoxes()
        self.opened = 0
        self.live = 0
        self.failing = set(failing)
        self.two = anyio.Event()

    def open(self, spec):
        from contextlib import asynccontextmanager

        @asynccontextmanager
        async def counted():
            self.opened += 1
            if self.opened in self.failing:
                raise InfraError(f"opening {self.opened} failed")
            async with self.inner.open(spec) as box:
                self.live += 1
                if self.live == 2:
                    self.two.set()
                try:
                    yield box
                finally:
                    self.live -= 1

        return counted()


class TestPooledBoxes(BoxContract):
    def boxes(self):
        return Pool(EmbeddedBoxes())

    def live(self, *arguments, **named):
        from contextlib import asynccontextmanager

        from harness.testing.box_contract import LIMITS

        @asynccontextmanager
        async def live(limits=LIMITS):
            async with Pool(EmbeddedBoxes()) as pool, pool.open(BoxSpec(owner="pool", limits=limits)) as box:
                yield box

        return live(*arguments, **named)


async def test_a_candidates_box_is_never_handed_out_again():
    boxes = Counted()
    async with Pool(boxes) as pool:
        seen = []
        for _ in range(4):
            async with pool.open(SPEC) as box:
                assert box not in seen
                seen.append(box)
                assert (await python(box, "import os; print(os.listdir('.')); open('left', 'w')")).stdout == b"[]\n"
            with pytest.raises(BoxClosedError):
                await box.reset()
    assert boxes.live == 0
    assert boxes.opened <= 5


async def test_the_next_box_opens_while_one_runs():
    boxes = Counted()
    async with Pool(boxes) as pool, pool.open(SPEC):
        with anyio.fail_after(20):
            await boxes.two.wait()
    assert boxes.live == 0


async def test_a_scorers_box_comes_back_empty():
    boxes = Counted()
    async with Pool(boxes) as pool:
        first = None
        for _ in range(3):
            async with pool.open(SCORER) as box:
                first = first or box
                assert box is first
                assert await box.get("/work", max_bytes=0) == []
                await python(box, "import os; open('left', 'w'); os.fork() or __import__('time').sleep(60)")
    assert (boxes.opened, boxes.live) == (1, 0)


async def test_two_scorers_at_once_have_two_boxes():
    async with Pool(Counted()) as pool, pool.open(SCORER) as one, pool.open(SCORER) as other:
        assert one is not other


async def test_a_scorers_box_that_failed_does_not_come_back():
    boxes = Counted()
    async with Pool(boxes) as pool:
        with pytest.raises(KeyError):
            async with pool.open(SCORER):
                raise KeyError
        async with pool.open(SCORER) as box:
            await box.close()
        async with pool.open(SCORER):
            pass
    assert (boxes.opened, boxes.live) == (3, 0)


async def test_a_box_opened_ahead_that_failed_is_tried_once_more():
    async with Pool(Counted(failing={2})) as pool:
        for _ in range(3):
            async with pool.open(SPEC) as box:
                assert (await python(box, "print(1)")).stdout == b"1\n"
    async with Pool(Counted(failing={1, 2})) as pool:
        with pytest.raises(InfraError):
            async with pool.open(SPEC):
                pass


async def test_cancelling_while_it_opens_leaves_nothing():
    boxes = Counted()
    async with Pool(boxes) as pool:
        for delay in (0.0, 0.01, 0.03):
            with anyio.move_on_after(delay):
                async with pool.open(SPEC):
                    await anyio.sleep_forever()
            with anyio.move_on_after(delay):
                async with pool.open(SCORER):
                    await anyio.sleep_forever()
    assert boxes.live == 0


async def test_an_error_in_the_pools_body_is_the_callers_own_and_closes_everything():
    boxes = Counted()
    with pytest.raises(KeyError):
        async with Pool(boxes) as pool, pool.open(SPEC):
            raise KeyError
    assert boxes.live == 0


@pytest.mark.parametrize("spec", [SPEC, SCORER])
async def test_a_box_that_died_while_it_waited_is_not_handed_out(spec):
    boxes = EmbeddedBoxes()
    await boxes.prepare()
    async with Pool(boxes) as pool:
        async with pool.open(spec) as box:
            await python(box, "pass")
        (waiting,) = (pool._kept if spec.reusable else pool._ahead)[spec]
        await waiting.settled.wait()
        await waiting.box._end()  # as an engine that restarts does: the box does not know
        async with pool.open(spec) as box:
            assert box is not waiting.box
            assert (await python(box, "print(1)")).stdout == b"1\n"
