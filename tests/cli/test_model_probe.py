"""`strop doctor --model NAME` proves a model with one call."""

import anyio
import pytest
from support.toy import STROP, make_toy

from harness.cli.model_probe import probe_model
from harness.errors import InputError
from harness.testing.model_shapes import SHAPES
from harness.testing.scripted_model import ScriptedModel


def subject(folder, url):
    return make_toy(folder, strop=f'{STROP}\n[policy.models.main]\nbase_url = "{url}"\n')


async def test_a_model_that_answers(tmp_path):
    async with ScriptedModel("ready") as model:
        check = await probe_model("main", await anyio.to_thread.run_sync(subject, tmp_path / "toy", model.url))
    assert check.ok
    assert "said 'ready'" in check.detail
    assert model.served.requests == 1


@pytest.mark.parametrize(
    ("message", "reason", "ok", "said"),
    [
        ({"content": None}, "stop", False, "said nothing: finish_reason stop"),
        ({"content": "  "}, "stop", False, "said nothing: finish_reason stop"),
        (
            {"content": None, "reasoning_content": "well"},
            "length",
            True,
            "no answer within its limit of tokens (it was",
        ),
        ({"content": None}, "length", False, "no answer within its limit of tokens in"),
        ({"content": [{"type": "text", "text": "ready"}]}, "stop", True, "said 'ready'"),
    ],
)
async def test_a_model_that_says_nothing_is_not_ok(tmp_path, monkeypatch, message, reason, ok, said):
    choice = {"index": 0, "message": message, "finish_reason": reason}
    whole = {"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    monkeypatch.setattr(SHAPES["/chat/completions"], "whole", lambda turn: whole)
    async with ScriptedModel("ready") as model:
        check = await probe_model("main", await anyio.to_thread.run_sync(subject, tmp_path / "toy", model.url))
    assert check.ok is ok
    assert said in check.detail
    assert "None" not in check.detail
    assert model.served.requests == 1


async def test_empty_choices_are_not_ok(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.cli.model_probe.PATIENCE_S", 0.2)
    async with ScriptedModel(modes=["empty"] * 99) as model:
        check = await probe_model("main", await anyio.to_thread.run_sync(subject, tmp_path / "toy", model.url))
    assert not check.ok
    assert "no choices" in check.detail


@pytest.mark.parametrize(
    ("mode", "mend"),
    [
        ("401", "no key was sent, for no api_key_env is set, and the server wants a key: set api_key_env"),
        ("404", "set model of models.main to one it has: scripted-1,"),
    ],
)
async def test_one_that_refuses_says_what_to_mend(tmp_path, mode, mend):
    async with ScriptedModel(modes=[mode]) as model:
        check = await probe_model("main", await anyio.to_thread.run_sync(subject, tmp_path / "toy", model.url))
    assert not check.ok
    assert f"HTTP {mode}" in check.detail
    assert mend in check.mend


async def test_a_wrong_key_is_named_by_its_variable_and_never_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-wrong-0123456789abcdef")
    async with ScriptedModel(modes=["401"]) as model:
        extra = f'\n[policy.models.main]\nbase_url = "{model.url}"\napi_key_env = "MY_KEY"\n'
        check = await probe_model("main", make_toy(tmp_path / "toy", strop=STROP + extra))
    assert "the key in MY_KEY is refused" in check.mend
    assert "sk-wrong" not in f"{check}"


async def test_a_dead_endpoint_says_so_within_seconds(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.cli.model_probe.PATIENCE_S", 0.2)
    check = await probe_model("main", subject(tmp_path / "toy", "http://127.0.0.1:1/v1"))
    assert not check.ok
    assert "cannot connect" in check.detail
    assert "nothing listens at http://127.0.0.1:1/v1" in check.mend


async def test_one_the_policy_does_not_have(tmp_path):
    with pytest.raises(InputError, match="no model called 'other'"):
        await probe_model("other", subject(tmp_path / "toy", "http://127.0.0.1:1/v1"))
