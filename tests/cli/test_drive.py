import os
import signal
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from harness.cli.drive import DRAINING, Driver
from harness.cli.progress import QuietDisplay
from harness.errors import InputError
from harness.events import RunFinished, RunStopped, TicketStarted


class FakeRun:
    """A run that sends itself signals: its script says what happens before each event."""

    def __init__(self, script):
        self.folder = Path("/runs/fake")
        self.run_id = "fake"
        self.drained = anyio.Event()
        self.cancelled = False
        self._script = script

    @property
    async def events(self):
        async for event in self._script(self):
            yield event

    def drain(self):
        self.drained.set()

    @asynccontextmanager
    async def opened(self):
        try:
            yield self
        except anyio.get_cancelled_exc_class():
            self.cancelled = True
            raise


async def drive(script):
    said = []
    run = FakeRun(script)
    driver = Driver(QuietDisplay(said.append))
    with anyio.fail_after(20):
        await driver.drive(run.opened)
    return driver, run, said


async def test_a_run_that_ends_by_itself_is_0():
    async def script(run):
        yield TicketStarted(1, "v0")
        yield RunFinished({"state": "finished"})

    driver, _, said = await drive(script)
    assert (driver.exit_code, driver.aborted, said) == (0, False, [])
    assert driver.folder == "/runs/fake"


async def test_the_first_ctrl_c_drains_and_says_so():
    async def script(run):
        yield TicketStarted(1, "v0")
        os.kill(os.getpid(), signal.SIGINT)
        await run.drained.wait()
        yield RunStopped("interrupted")
        yield RunFinished({"state": "interrupted"})

    driver, run, said = await drive(script)
    assert said == [f"strop: {DRAINING}"]
    assert not run.cancelled
    assert (driver.exit_code, driver.aborted) == (130, False)


async def test_a_drain_that_finds_the_run_at_its_end_is_0():
    async def script(run):
        yield TicketStarted(1, "v0")
        os.kill(os.getpid(), signal.SIGINT)
        await run.drained.wait()
        yield RunFinished({"state": "finished"})

    driver, _, _ = await drive(script)
    assert driver.exit_code == 0


async def test_the_second_ctrl_c_aborts():
    async def script(run):
        yield TicketStarted(1, "v0")
        os.kill(os.getpid(), signal.SIGINT)
        await run.drained.wait()
        os.kill(os.getpid(), signal.SIGINT)
        await anyio.sleep_forever()

    driver, run, _ = await drive(script)
    assert run.cancelled
    assert (driver.exit_code, driver.aborted) == (130, True)


async def test_sigterm_aborts_at_once():
    async def script(run):
        yield TicketStarted(1, "v0")
        os.kill(os.getpid(), signal.SIGTERM)
        await anyio.sleep_forever()

    driver, run, said = await drive(script)
    assert run.cancelled
    assert (driver.exit_code, driver.aborted, said) == (130, True, [])


async def test_ctrl_c_before_the_run_is_open_aborts():
    opening = anyio.Event()

    @asynccontextmanager
    async def never():
        os.kill(os.getpid(), signal.SIGINT)
        await opening.wait()
        yield None

    driver = Driver(QuietDisplay(lambda text: None))
    with anyio.fail_after(20):
        await driver.drive(never)
    assert (driver.exit_code, driver.folder) == (130, "")


async def test_errors_of_the_run_come_through():
    async def script(run):
        yield TicketStarted(1, "v0")
        raise InputError("bad root")

    with pytest.raises(ExceptionGroup) as caught:
        await drive(script)
    assert caught.group_contains(InputError, match="bad root")
