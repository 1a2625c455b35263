"""A run as one signed file: nothing of it is lost, and nothing that was changed comes in."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import harness
from harness.archive.lock import RunLock
from harness.archive.parcel import read_parcel, write_parcel
from harness.archive.signing import CONFIG_VARIABLE, KEY_NAME, own_key, public_text
from harness.archive.sqlite import SqliteArchive
from harness.errors import InputError, IntegrityError, StropError
from harness.records import ModelCall, Reply, Spend
from harness.repo.store import FOLDER_NAME
from harness.research.replay import replay
from harness.research.transfer import export_archive, import_archive
from harness.research.verify import verify
from harness.resources import resource
from harness.testing.ladder import write_ladder

LANDSCAPE = resource("archives") / "landscape"


async def play(opened, *, stop_after=0):
    async with opened as run:
        decided = 0
        async for event in run.events:
            decided += type(event).__name__ == "TicketDecided"
            if stop_after and decided == stop_after:
                run.drain()
    return run


def landscape(runs, seed=3, steps=12, **more):
    return harness.open_run(LANDSCAPE, seed=seed, runs=runs, overrides={"budget.steps": steps}, **more)


@pytest.fixture(autouse=True)
def _own_config(tmp_path, monkeypatch):
    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / "config"))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A finished run and its file, signed by a key that the tests do not have."""
    top = tmp_path_factory.mktemp("exported")

    async def main():
        run = await play(landscape(top / "runs"))
        await export_archive(run.folder, top / "run.strop")
        return run.folder

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CONFIG_VARIABLE, str(top / "config"))
        folder = anyio.run(main)
        return folder, top / "run.strop", public_text(own_key())


async def rows_of(folder):
    archive = await SqliteArchive.view(folder)
    told = []
    await archive.pour(lambda table, values: told.append((table, values)) if table != "meta" else None)
    await archive.aclose()
    return told


async def test_a_run_comes_back_as_it_was(exported, tmp_path):
    folder, file, key = exported
    found = await import_archive(file, tmp_path / "runs", expect=key)
    assert found.folder == (tmp_path / "runs" / folder.name).resolve()
    assert await rows_of(found.folder) == await rows_of(folder)
    mine, theirs = await harness.summarize(found.folder), await harness.summarize(folder)
    for summary in (mine, theirs):
        del summary["folder"], summary["report"]
    assert mine == theirs
    assert (await replay(found.folder)).head == theirs["ledger_head"]
    again = tmp_path / "again.strop"
    await export_archive(found.folder, again)
    assert read_parcel(again).header["hash"] == read_parcel(file).header["hash"]


async def test_a_name_that_is_taken_is_refused_and_another_is_taken(exported, tmp_path):
    _, file, _ = exported
    await import_archive(file, tmp_path)
    with pytest.raises(InputError, match="exists already") as caught:
        await import_archive(file, tmp_path)
    assert (caught.value.key, "--name NAME" in caught.value.mend) == ("--name", True)
    assert (await import_archive(file, tmp_path, name="other")).folder.name == "other"
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir() and path.name.startswith(".")) == []


async def test_what_a_killed_import_left_is_removed_and_what_is_under_way_is_not(exported, tmp_path):
    _, file, _ = exported
    dead, held, young = (tmp_path / f".importing-{name}" for name in ("dead", "held", "young"))
    for stage in (dead, held, young):
        (stage / "run").mkdir(parents=True)
        (stage / "run" / "run.db").write_text("half")
    for stage in (dead, held):
        os.utime(stage, (1, 1))
    with RunLock(held):
        os.utime(held, (1, 1))
        await import_archive(file, tmp_path)
    assert not dead.exists()
    assert (held / "run" / "run.db").exists()
    assert young.exists()


async def test_an_interrupted_run_goes_on_elsewhere(tmp_path):
    subject = write_ladder(tmp_path / "ladder", noise=0.1)
    overrides = {"budget.steps": 5, "budget.rollouts": 3000, "schedule.workers": 3}
    whole = await play(harness.open_run(subject, seed=7, runs=tmp_path / "runs", overrides=overrides))
    opened = harness.open_run(subject, seed=7, runs=tmp_path / "runs", overrides=overrides)
    part = await play(opened, stop_after=2)
    await export_archive(part.folder, tmp_path / "part.strop")
    found = await import_archive(tmp_path / "part.strop", tmp_path / "elsewhere")
    rest = await play(harness.resume_run(found.folder))
    assert rest.summary["ledger_head"] == whole.summary["ledger_head"]


async def test_model_calls_travel(tmp_path):
    run = await play(landscape(tmp_path / "runs", steps=2))
    archive = await SqliteArchive.open(run.folder)
    reply = Reply(200, "application/json", b"\x00\xff{}")
    call = ModelCall(1, "agent", 0, "d", "m", "chat", "v0", Spend(), Spend(1, 2, 3, 4), reply)
    await archive.journal().begin_call(call, b"\xfe request")
    await archive.journal().finish_call(call)
    await archive.aclose()
    await export_archive(run.folder, tmp_path / "a.strop")
    found = await import_archive(tmp_path / "a.strop", tmp_path / "elsewhere")
    archive = await SqliteArchive.view(found.folder)
    assert await archive.journal().calls() == [call]
    await archive.aclose()


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_bit_can_be_flipped(exported, data):
    _, file, _ = exported
    spoiled = bytearray(file.read_bytes())
    # half of the time in the header, where a flip could mean something
    most = 8 * (len(spoiled) if data.draw(st.booleans()) else 700)
    for bit in data.draw(st.sets(st.integers(0, most - 1), min_size=1, max_size=3)):
        spoiled[bit // 8] ^= 1 << bit % 8
    copy = file.with_name("spoiled.strop")
    copy.write_bytes(spoiled)
    with pytest.raises(IntegrityError):
        read_parcel(copy)


@given(data=st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_can_be_cut_off_put_in_or_put_on(exported, data):
    _, file, _ = exported
    whole = file.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    more = data.draw(st.binary(min_size=1, max_size=20))
    copy = file.with_name("cut.strop")
    for spoiled in (whole[:at], whole[:at] + more + whole[at:], whole + more):
        copy.write_bytes(spoiled)
        with pytest.raises(StropError) as raised:
            read_parcel(copy)
        assert raised.value.exit_code in (2, 4)
        assert isinstance(raised.value, IntegrityError) or at < 14


async def test_a_flipped_bit_leaves_no_run_behind(exported, tmp_path):
    _, file, _ = exported
    spoiled = bytearray(file.read_bytes())
    spoiled[-100] ^= 4
    (tmp_path / "spoiled.strop").write_bytes(spoiled)
    with pytest.raises(IntegrityError):
        await import_archive(tmp_path / "spoiled.strop", tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


async def test_another_signer_is_refused_where_one_is_expected(exported, tmp_path):
    _, file, key = exported
    with pytest.raises(IntegrityError, match="signing key"):
        await import_archive(file, tmp_path, expect=public_text(own_key()))
    assert (await import_archive(file, tmp_path, expect=key)).key == key


def forged(file: Path, target: Path, change) -> Path:
    """The same file after `change(line)` of every payload line, signed anew: what a hostile signer can do."""
    parcel = read_parcel(file)

    def fill(sink):
        reader = parcel.reader()
        for told in reader.lines():
            raw = reader.take(told[2]) if told[0] == "object" else b""
            for line, data in change(told, raw):
                sink(json.dumps(line, sort_keys=True, separators=(",", ":")).encode() + b"\n" + data)
        reader.close()
        return {name: parcel.header[name] for name in ("run", "subject", "seq", "hash", "seal", "tickets", "variants")}

    write_parcel(target, fill)
    return target


def better_score(told, raw):
    if told[1:2] == ["ledger"] and told[2][1] == "ticket":
        told[2][3] = told[2][3].replace('"score":0.2', '"score":0.9')
    return [(told, raw)]


def without_a_tree(told, raw):
    return [] if told[:2] == ["object", "tree"] else [(told, raw)]


def link_in_a_tree(told, raw):
    return [([*told[:2], len(raw)], raw.replace(b"100644 ", b"120000 "))] if told[0] == "object" else [(told, raw)]


def another_table(told, raw):
    return [(["row", "sqlite_master", [1, 2, 3]], b""), (told, raw)]


def injected(told, raw):
    if told[1:2] == ["ledger"] and told[2][1] == "run":
        told[2][3] = told[2][3].replace('"pinned":{', '"pinned":{"x\\ndelete refs/strop/root":"' + "0" * 40 + '",')
    return [(told, raw)]


def huge(told, raw):
    return [(["object", "blob", 2**60], b"")] if told[0] == "object" else [(told, raw)]


def twice(told, raw):
    return [(told, raw), (told, raw)]


def nothing(told, raw):
    return []


def nonsense(told, raw):
    return [(["row", "ledger", [[1], {}, None, "x", "y", [], 0]], b""), (told, raw)]


@pytest.mark.parametrize(
    "change",
    [better_score, without_a_tree, link_in_a_tree, another_table, injected, huge, twice, nothing, nonsense],
)
async def test_a_hostile_signer_gets_nothing_in(exported, tmp_path, change):
    _, file, _ = exported
    bad = forged(file, tmp_path / "bad.strop", change)
    with pytest.raises(IntegrityError):
        await import_archive(bad, tmp_path / "runs")
    assert list((tmp_path / "runs").iterdir()) == []


async def test_what_is_broken_is_not_signed(exported, tmp_path):
    folder, _, _ = exported
    broken = Path(shutil.copytree(folder, tmp_path / "broken"))
    next((broken / FOLDER_NAME / "refs" / "strop" / "variants").iterdir()).unlink()
    with pytest.raises(IntegrityError):
        await export_archive(broken, tmp_path / "broken.strop")
    assert not list(tmp_path.glob("*.strop*"))


async def test_an_export_overwrites_nothing(exported, tmp_path):
    folder, _, _ = exported
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(InputError, match="there already"):
        await export_archive(folder, tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "precious"


def test_a_key_is_made_once_for_its_owner_alone(tmp_path):
    assert public_text(own_key()) == public_text(own_key())
    path = tmp_path / "config" / KEY_NAME
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(InputError, match="others can read"):
        own_key()
    path.chmod(0o600)
    path.write_text("not a key")
    with pytest.raises(InputError, match="no private key"):
        own_key()


async def test_a_new_run_begins_with_an_archive_and_its_lineage(exported, tmp_path):
    folder, file, _ = exported
    before = await bodies_of(folder)
    archived = [body for body in before if "member" in body["archive"]]
    run = await play(landscape(tmp_path, seed=8, steps=len(archived) + 2, start=file))
    after = await bodies_of(run.folder)
    place = {body["variant"]["id"]: number for number, body in enumerate(archived, start=1)}
    for number, body in enumerate(archived):
        mine = after[number]
        assert mine["proposal"]["tree"] == body["proposal"]["tree"]
        assert mine["proposal"]["memo"] == {"from": body["variant"]["id"]}
        assert mine["parent"] == f"v{place.get(body['parent'], 0)}"
        assert mine["decision"]["verdict"] in ("archived", "kept")
        assert mine["rollouts"]
    assert (await verify(run.folder)).tickets == len(archived) + 2
    assert (await replay(run.folder)).tickets == len(archived) + 2


@pytest.mark.parametrize("workers", [1, 4])
async def test_a_sown_run_resumes_to_the_same_end(exported, tmp_path, workers):
    folder, _, _ = exported
    more = {"start": folder, "workers": workers, "seed": 2, "steps": 7, "start_best": 4}
    whole = await play(landscape(tmp_path, **more))
    part = await play(landscape(tmp_path, **more), stop_after=3)
    rest = await play(harness.resume_run(part.folder))
    assert rest.summary["ledger_head"] == whole.summary["ledger_head"]


async def test_only_the_best_are_sown(exported, tmp_path):
    folder, _, _ = exported
    scores = {body["variant"]["id"]: body["score"] for body in await bodies_of(folder) if body["variant"]}
    best = sorted((score for score in scores.values() if score is not None), reverse=True)[:3]
    run = await play(landscape(tmp_path, seed=1, steps=4, start=folder, start_best=3))
    sown = [body["proposal"]["memo"]["from"] for body in (await bodies_of(run.folder))[:3]]
    assert sorted((scores[name] for name in sown), reverse=True) == best


async def test_what_a_new_subject_locks_is_blocked_when_sown(exported, tmp_path):
    folder, _, _ = exported
    subject = shutil.copytree(LANDSCAPE, tmp_path / "subject")
    (subject / "other.txt").write_text("editable here")
    text = (subject / "strop.toml").read_text()
    (subject / "strop.toml").write_text(
        text.replace('editable = ["agent.txt", "made-by/*"]', 'editable = ["other.txt"]')
    )
    overrides = {"budget.steps": 3}
    opened = harness.open_run(subject, seed=1, runs=tmp_path, overrides=overrides, start=folder, start_best=2)
    run = await play(opened)
    assert run.summary["counts"]["blocked"] >= 2


async def test_a_budget_that_seeds_would_eat_is_refused(exported, tmp_path):
    folder, _, _ = exported
    with pytest.raises(InputError, match="do not cover"):
        await play(landscape(tmp_path, steps=5, start=folder))


async def test_nothing_to_begin_with_is_said(tmp_path):
    run = await play(
        harness.open_run(LANDSCAPE, seed=0, runs=tmp_path, overrides={"budget.steps": 1, "agent.config.p_break": 1})
    )
    with pytest.raises(InputError, match="nothing but its root"):
        await play(landscape(tmp_path, start=run.folder))


async def bodies_of(folder):
    archive = await SqliteArchive.view(folder)
    bodies = [entry.body for entry in await archive.tickets()]
    await archive.aclose()
    return bodies
