import pytest

import harness
from harness.archive.sqlite import SqliteArchive
from harness.errors import InputError
from harness.records import Attempt, Variant, Verdict
from harness.report.patches import generations
from harness.research.evidence.posterior import Share
from harness.research.lineage import Lineage, lineage_of, resolve
from harness.research.population import Change, Member
from harness.research.standing import Mark, Standing
from harness.testing.ladder import write_ladder


def family(*rows):
    """(ticket, parents, wins, losses, functions) of each variant."""
    standing = Standing("max", marks=[Mark("v0", 0, 0)])
    standing.variants["v0"] = Variant("v0", 0, "t0", (), Verdict.KEPT, 0.5, "")
    for ticket, parents, wins, losses, functions in rows:
        name, above = f"v{ticket}", tuple(f"v{one}" for one in parents)
        verdict = Verdict.ARCHIVED if functions else Verdict.CRASHED
        standing.variants[name] = Variant(name, ticket, f"t{ticket}", above, verdict, 0.5, "")
        standing.attempts.append(Attempt(ticket, above[0], name, verdict, 0.5, 0.5, "", {}, ""))
        if functions:
            standing.changes.append(Change(ticket, Member(name, ticket, above, 0.5, wins, losses)))
    return Lineage.of(standing, (1, 1))


def test_a_merge_is_counted_once_in_every_clade_above_it():
    of = family((1, [0], 2, 0, True), (2, [0], 0, 3, True), (3, [1, 2], 4, 1, True), (4, [3], 0, 0, False))
    assert of.ancestors("v4") == ["v0", "v1", "v2", "v3"]
    assert of.descendants("v0") == ["v1", "v2", "v3", "v4"]
    root = of.kin("v0")
    assert (root.children, root.tried, root.clade) == (2, 2, 4)
    assert (root.evidence.solved, root.evidence.run) == (7, 12)
    assert root.evidence.mean == Share(7, 5).mean
    assert root.evidence.interval == Share(7, 5).interval()
    assert (of.kin("v1").evidence.solved, of.kin("v2").evidence.run) == (6, 8)
    assert root.best == "v1"
    assert of.kin("v2").best == "v3"


def test_a_broken_child_is_kin_and_no_evidence():
    of = family((1, [0], 2, 0, True), (2, [1], 0, 0, False))
    assert of.kin("v1").children == 0
    assert of.kin("v1").tried == 1
    broken = of.kin("v2")
    assert (broken.own, broken.evidence, broken.best, broken.clade) == (None, None, None, 0)
    assert [kin.variant for kin in of.clades(0)] == ["v1", "v0"]
    with pytest.raises(InputError, match="no variant v9"):
        of.kin("v9")


async def test_a_run_s_clades_are_what_its_ledger_adds_up_to(tmp_path):
    overrides = {"budget.steps": 25, "budget.rollouts": 5000}
    opened = harness.open_run(write_ladder(tmp_path / "ladder"), seed=3, runs=tmp_path / "runs", overrides=overrides)
    async with opened as run:
        async for _ in run.events:
            pass
    found, standing = await lineage_of(run.folder)
    archive = await SqliteArchive.view(run.folder)
    bodies = [entry.body for entry in await archive.tickets()]
    await archive.aclose()
    own = {"v0": (6.0, 14.0)}
    for body in bodies:
        for member in (*body["archive"].get("again", ()), *filter(None, [body["archive"].get("member")])):
            own[member["id"]] = member.get("wins", 0), member.get("losses", 0)
    assert found.known == own
    for name in own:
        below = [one for one in own if one == name or name in found.ancestors(one)]
        kin = found.kin(name)
        assert kin.clade == len(below)
        assert kin.evidence.solved == pytest.approx(sum(own[one][0] for one in below))
        assert kin.evidence.run == pytest.approx(sum(sum(own[one]) for one in below))
    means = [kin.evidence.mean for kin in found.clades(0)]
    assert means == sorted(means, reverse=True)
    steps = await generations(run.folder, "best")
    assert [step.variant for step in steps] == [*found.ancestors(resolve(standing, "best"))[1:], standing.incumbent.id]
    assert all("+++ b/skill.txt" in step.patch for step in steps)
