"""Recorded and replayed runs: what a run was told is enough to make it again, offline and without a key."""

import json

import pytest
from research.test_models import KEY, better, play, settings
from research.test_run import bodies
from support.toy import make_toy

from harness import open_run
from harness.errors import CassetteError, InputError, StorageError
from harness.model.cassette import load
from harness.testing.scripted_model import ScriptedModel


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("TOY_KEY", KEY)


@pytest.fixture
async def recorded(tmp_path):
    """(the subject, the cassette, the run that was recorded, its settings)."""
    subject, tape = make_toy(tmp_path / "toy"), tmp_path / "tape.jsonl"
    async with ScriptedModel(better) as model:
        chosen = settings(model, **{"budget.steps": 2, "models.m": {"base_url": model.url, "api_key_env": "TOY_KEY"}})
        _, run = await play(open_run(subject, workers=1, overrides=chosen, runs=tmp_path / "a", record=tape))
    return subject, tape, run, chosen


async def test_a_replayed_run_decides_the_same_without_model_or_key(recorded, tmp_path, monkeypatch):
    subject, tape, run, chosen = recorded
    monkeypatch.delenv("TOY_KEY")
    _, again = await play(open_run(subject, workers=1, overrides=chosen, runs=tmp_path / "b", replay=tape))
    assert [body for kind, body in await bodies(again.folder) if kind == "ticket"] == [
        body for kind, body in await bodies(run.folder) if kind == "ticket"
    ]
    assert again.summary["models"] == run.summary["models"]
    assert again.summary["models"]["proposer"]["requests"] == 2

    # the file holds replies by digest, and neither key nor request
    text = tape.read_text()
    assert KEY not in text
    assert "You improve a program" not in text
    assert [json.loads(row)["ticket"] for row in text.splitlines()[1:]] == [1, 2]


async def test_a_call_that_is_not_on_it_is_a_typed_error_that_says_which(recorded, tmp_path):
    subject, tape, _, chosen = recorded
    with pytest.raises(CassetteError, match=r"tape\.jsonl has no completion for call \w{12} of the proposer") as caught:
        await play(
            open_run(subject, workers=1, overrides={**chosen, "budget.steps": 3}, runs=tmp_path / "b", replay=tape)
        )
    assert (caught.value.ticket, caught.value.role, caught.value.model) == (3, "proposer", "m")
    assert "--record" in caught.value.mend


async def test_the_same_request_of_another_ticket_is_answered_and_only_as_often_as_it_was_recorded(recorded):
    from harness.model.base import Caller

    cassette = load(recorded[1])
    digest = json.loads(recorded[1].read_text().splitlines()[1])["digest"]
    assert cassette.take(Caller(9, "task", "x"), digest) is not None
    assert cassette.take(Caller(1, "proposer", "v0"), digest) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "line 1 is not what a cassette holds"),
        ("{}", "line 1"),
        ('{"cassette": 99}', "format 99"),
        ('{"cassette": 1}\n{"ticket": 1}', "line 2"),
        ('{"cassette": 1}\n[]', "line 2"),
    ],
)
async def test_what_is_no_cassette_is_refused_before_anything_is_written(tmp_path, text, why):
    (tmp_path / "tape").write_text(text)
    opening = open_run(make_toy(tmp_path / "toy"), runs=tmp_path / "runs", replay=tmp_path / "tape")
    with pytest.raises(InputError, match=why):
        await play(opening)
    assert not (tmp_path / "runs").exists()


async def test_nothing_to_record_and_nowhere_to_record_are_said_at_once(tmp_path):
    subject, runs = make_toy(tmp_path / "toy"), tmp_path / "runs"
    with pytest.raises(InputError, match="the policy names no models"):
        await play(open_run(subject, runs=runs, record=tmp_path / "tape"))
    with pytest.raises(InputError, match="no such folder"):
        await play(open_run(subject, runs=runs, record=tmp_path / "nowhere" / "tape"))
    with pytest.raises(InputError, match="No such file"):
        await play(open_run(subject, runs=runs, replay=tmp_path / "nowhere"))
    with pytest.raises(InputError, match="nothing to record"):
        await play(open_run(subject, runs=runs, record=tmp_path / "a", replay=tmp_path / "b"))
    assert not runs.exists()


def test_a_cassette_that_cannot_be_written_is_a_storage_error(tmp_path):
    from harness.model.cassette import write

    (tmp_path / "tape").mkdir()
    with pytest.raises(StorageError, match="tape"):
        write(tmp_path / "tape", [])
    assert [path.name for path in tmp_path.iterdir()] == ["tape"]
