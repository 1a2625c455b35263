import pytest
from support.toy import make_toy

import harness
from harness.errors import InputError
from harness.records import Split
from harness.research.versus import Finished, against, compared


def made(items, **more):
    return Finished(
        **{"name": "one", "best": "v1", "direction": "min", "labels": "d", "items": items, "control": "none"} | more
    )


def test_gains_are_positive_for_better_whatever_the_direction():
    base, better = made({"a": 1.0, "b": 1.0, "c": 0.0}), made({"a": 0.0, "b": 0.0, "c": 0.0}, name="two")
    told = against(base, better)
    assert told["gain"] == pytest.approx(2 / 3)
    assert told["p_mcnemar"] == 0.25
    turned = against(made({"a": 1.0}, direction="max"), made({"a": 0.0}, direction="max"))
    assert turned["gain"] == -1.0


def test_other_vaults_are_refused():
    with pytest.raises(InputError, match="judged on others"):
        against(made({"a": 1.0}), made({"a": 1.0}, labels="e"))
    with pytest.raises(InputError, match="judged on others"):
        against(made({"a": 1.0}), made({"b": 1.0}))


async def test_runs_of_one_subject_are_paired_on_their_vault(tmp_path):
    subject = make_toy(tmp_path / "toy")
    folders = []
    for steps, script in ((1, ["none"]), (2, ["value 70", "none"])):
        overrides = {"budget.steps": steps, "agent.name": "support.agents:Scripted", "agent.config.script": script}
        async with harness.open_run(subject, seed=0, runs=tmp_path / "runs", overrides=overrides) as run:
            async for _ in run.events:
                pass
        folders.append(run.folder)
    for split in (Split.VAULT, Split.HOLDOUT):
        base, better = await compared(folders, split)
        assert (base["best"], better["best"]) == ("v0", "v1")
        assert better["gain"] > 0.4
        assert better["ci"][0] > 0
    with pytest.raises(InputError, match="named twice"):
        await compared([folders[0], folders[0]])


def test_another_direction_is_refused():
    with pytest.raises(InputError, match="another way"):
        against(made({"a": 1.0}), made({"a": 1.0}, direction="max"))
