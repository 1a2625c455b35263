"""Islands with ring migration and merges, in the product's own engine."""

import shutil
from pathlib import Path

import pytest

import harness
from harness.archive.sqlite import SqliteArchive
from harness.policy.schema import ArchivePolicy
from harness.repo.store import FOLDER_NAME, TreeStore
from harness.research.lineage import lineage_of
from harness.research.merging import merge_trees
from harness.research.parents import merges
from harness.research.population import member_of
from harness.research.replay import replay
from harness.research.verify import verify
from harness.resources import resource
from harness.testing.ladder import write_ladder
from harness.testing.landscape import features_of

LANDSCAPE = resource("archives") / "landscape"


async def play(subject, runs, seed=1, *, stop_after=0, folder=None, **overrides):
    opened = harness.open_run(subject, seed=seed, runs=runs, overrides=overrides)
    async with harness.resume_run(folder) if folder else opened as run:
        decided = 0
        async for event in run.events:
            decided += type(event).__name__ == "TicketDecided"
            if stop_after and decided == stop_after:
                run.drain()
    return run


async def bodies_of(run):
    archive = await SqliteArchive.view(run.folder)
    bodies = [entry.body for entry in await archive.tickets()]
    await archive.aclose()
    return bodies


async def test_tickets_go_round_the_islands_and_the_best_move_on(tmp_path):
    islands, every = 3, 6
    settings = {"budget.steps": 30, "archive.islands": islands, "archive.migrate_every": every}
    run = await play(LANDSCAPE, tmp_path, 4, **settings)
    where, scores = {"v0": {0, 1, 2}}, {"v0": 0.2}
    moved = 0
    for body in await bodies_of(run):
        ticket, change = body["ticket"], body["archive"]
        assert (ticket - 1) % islands in where[body["parent"]]
        before = {name: set(there) for name, there in where.items()}
        if "member" in change:
            member = member_of(change["member"])
            scores[member.id] = member.score
            before[member.id] = {(ticket - 1) % islands}
            where[member.id] = set(member.islands)
        for again in change.get("again", ()):
            where[again["id"]] = set(again["islands"])
        if ticket % every:
            assert where == before
            continue
        for island in range(islands):
            best = max(
                (name for name in before if island in before[name]), key=lambda name: (scores[name], -int(name[1:]))
            )
            before.setdefault(best, set())
            assert {island, (island + 1) % islands} <= where[best]
        moved += sum(len(where[name]) for name in where) - sum(len(before[name]) for name in before)
    assert moved > 3
    assert (await verify(run.folder)).tickets == 30
    assert (await replay(run.folder)).tickets == 30


@pytest.mark.parametrize("workers", [1, 3])
async def test_islands_and_merges_resume_to_the_same_end(tmp_path, workers):
    subject = write_ladder(tmp_path / "ladder", noise=0.05)
    settings = {
        "budget.steps": 10,
        "budget.rollouts": 5000,
        "schedule.workers": workers,
        "archive.islands": 2,
        "archive.migrate_every": 3,
        "archive.merge_every": 4,
    }
    whole = await play(subject, tmp_path / "runs", 5, **settings)
    part = await play(subject, tmp_path / "runs", 5, stop_after=4, **settings)
    rest = await play(subject, tmp_path / "runs", folder=part.folder)
    assert rest.summary["ledger_head"] == whole.summary["ledger_head"]


async def test_two_parents_are_merged_against_their_nearest_ancestor(tmp_path):
    settings = {"budget.steps": 24, "archive.merge_every": 2, "agent.name": "support.agents:Liner"}
    subject = Path(shutil.copytree(LANDSCAPE, tmp_path / "lines"))
    (subject / "agent.txt").write_text("\n".join(["slot", "", ""] * 12))
    run = await play(subject, tmp_path, 3, **settings)
    found, _ = await lineage_of(run.folder)
    store = TreeStore(run.folder / FOLDER_NAME)
    await store.view()
    merges = conflicts = 0
    for body in await bodies_of(run):
        pair = body["proposal"]["memo"].get("merge")
        if body["proposal"]["status"] == "conflict":
            conflicts += 1
            assert body["decision"]["verdict"] == "no_proposal"
            assert "both changed agent.txt" in body["decision"]["reason"]
        if pair is None or body["variant"] is None:
            continue
        merges += 1
        assert body["ticket"] % 2 == 0
        assert body["variant"]["parents"] == pair
        assert body["archive"]["member"]["parents"] == pair
        common = {pair[0], *found.ancestors(pair[0])} & {pair[1], *found.ancestors(pair[1])}
        assert body["proposal"]["memo"]["base"] == max(common, key=lambda name: int(name[1:]))
        assert not common & set(pair)
        trees = [await store.read(found.variants[name].tree) for name in (body["proposal"]["memo"]["base"], *pair)]
        assert await store.read(body["variant"]["tree"]) == merge_trees(*trees)
    assert merges > 1
    assert conflicts > 0
    assert run.summary["steps"]["done"] == 24
    assert (await verify(run.folder)).tickets == 24
    assert (await replay(run.folder)).tickets == 24


@pytest.mark.parametrize(("islands", "every"), [(1, 3), (2, 2), (3, 3), (2, 4)])
async def test_two_parents_of_the_landscape_go_together_on_every_island(tmp_path, islands, every):
    settings = {
        "budget.steps": 36,
        "archive.merge_every": every,
        "archive.islands": islands,
        "archive.migrate_every": 9,
    }
    run = await play(LANDSCAPE, tmp_path, 1, **settings)
    found, _ = await lineage_of(run.folder)
    store = TreeStore(run.folder / FOLDER_NAME)
    await store.view()
    merged = [body for body in await bodies_of(run) if "merge" in body["proposal"]["memo"]]
    entered = [body for body in merged if body["archive"].get("member")]
    assert len(entered) >= 36 // every // 2
    assert {(body["ticket"] - 1) % islands for body in entered} == set(range(islands))
    assert not any(body["proposal"]["status"] == "conflict" for body in await bodies_of(run))
    for body in entered:
        memo = body["proposal"]["memo"]
        base, *sides, child = [
            features_of(await store.read(found.variants[name].tree))
            for name in (memo["base"], *memo["merge"], body["variant"]["id"])
        ]
        assert child ^ base == (sides[0] ^ base) | (sides[1] ^ base)


@pytest.mark.parametrize(("islands", "every"), [(1, 4), (2, 2), (3, 2), (4, 6), (5, 1), (2, 0)])
def test_every_island_merges_as_often_as_any_other(islands, every):
    policy = ArchivePolicy(islands=islands, merge_every=every)
    turns = [(ticket - 1) % islands for ticket in range(1, 60 * islands + 1) if merges(policy, ticket)]
    assert [turns.count(island) for island in range(islands)] == [60 // every if every else 0] * islands
    if islands == 1:
        assert [ticket for ticket in range(1, 61) if merges(policy, ticket)] == [*range(every, 61, every)]


async def test_an_agent_cannot_claim_a_second_parent(tmp_path):
    settings = {"budget.steps": 4, "agent.name": "support.agents:Liner", "agent.config.claim": True}
    run = await play(LANDSCAPE, tmp_path, 3, **settings)
    for body in await bodies_of(run):
        assert body["proposal"]["memo"]["merge"] == ["v0", "v0"]
        assert body["variant"]["parents"] == [body["parent"]]


async def test_a_run_without_islands_and_merges_says_nothing_of_them(tmp_path):
    run = await play(LANDSCAPE, tmp_path, 3, **{"budget.steps": 3})
    archive = await SqliteArchive.view(run.folder)
    (first, *_, last) = [
        row.body for row in await archive.ledger() if row.body is not None and row.kind in ("run", "ticket")
    ]
    await archive.aclose()
    assert not {"islands", "migrate_every", "merge_every"} & set(first["policy"]["archive"])
    assert "islands" not in last["archive"].get("member", {})
