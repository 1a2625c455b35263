"""`strop doctor --model NAME` proves a model with one call."""

import anyio
import pytest
from support.toy import STROP, make_toy

from harness.cli.model_probe import probe_model
from harness.errors import InputError
from harness.testing.scripted_model import ScriptedModel


def subject(folder, url):
    return make_toy(folder, strop=f'{STROP}\n[policy.models.main]\nbase_url = "{url}"\n')


async def test_a_model_that_answers(tmp_path):
    async with ScriptedModel("ready") as model:
        check = await probe_model("main", await anyio.to_thread.run_sync(subject, tmp_path / "toy", model.url))
    assert check.ok
    assert "said 'ready'" in check.detail
    assert model.served.requests == 1


@pytest.mark.parametrize("mode", ["401", "404"])
async def test_one_that_refuses_says_what_to_mend(tmp_path, mode):
    async with ScriptedModel(modes=[mode]) as model:
        check = await probe_model("main", await anyio.to_thread.run_sync(subject, tmp_path / "toy", model.url))
    assert not check.ok
    assert f"HTTP {mode}" in check.detail
    assert "base_url" in check.mend


async def test_one_the_policy_does_not_have(tmp_path):
    with pytest.raises(InputError, match="no model called 'other'"):
        await probe_model("other", subject(tmp_path / "toy", "http://127.0.0.1:1/v1"))
