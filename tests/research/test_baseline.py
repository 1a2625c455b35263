"""A root that does not run is told with what to do about it."""

import pytest
from support.toy import STROP, TRAIN, make_toy

from harness import open_run
from harness.errors import InputError


async def finished(toy, **settings):
    async with open_run(toy, **settings) as run:
        async for _ in run.events:
            pass


async def mend_of(tmp_path, *, train=TRAIN, strop=STROP):
    toy = make_toy(tmp_path / "toy", train=train, strop=strop)
    with pytest.raises(InputError) as caught:
        await finished(toy, runs=tmp_path / "runs", overrides={"box.backend": "embedded"})
    return caught.value.mend


async def test_a_package_that_is_not_there(tmp_path):
    mend = await mend_of(tmp_path, train="import no_such_package.deep\n" + TRAIN)
    assert "install 'no_such_package' there, or install Strop into your project's own environment" in mend


async def test_an_interpreter_that_no_box_sees(tmp_path):
    mend = await mend_of(tmp_path, strop=STROP.replace('run = ["python"', 'run = ["/home/nobody/venv/bin/python"'))
    assert '[policy.box.mounts], as "/srv/venv" = "/home/me/venv"' in mend


async def test_anything_else(tmp_path):
    assert (
        await mend_of(tmp_path, train="raise SystemExit(3)\n")
        == "make the subject run and score as it is, then start again"
    )
