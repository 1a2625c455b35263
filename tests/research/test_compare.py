import pytest

from harness.errors import InputError
from harness.research.compare import Cell, compare, contender, table
from harness.resources import resource

WORLD = resource("archives") / "prompt-world"
QUICK = {"budget.rollouts": 130, "budget.steps": 2, "gate.pairs": 2, "holdout.pairs": 1}


def cell(label, seed, vault, selected=0.5, rollouts=10.0):
    return Cell(label, seed, "r", vault, 0.3, selected, rollouts, 0.0, 1.0)


def test_a_contender_is_a_name_with_settings():
    one = contender("gepa,merge_every=6,select=best,gate=true")
    assert (one.agent, dict(one.config)) == ("gepa", {"merge_every": 6, "select": "best", "gate": True})
    with pytest.raises(InputError, match="key=value"):
        contender("gepa,merge")


def test_differences_are_paired_by_seed():
    cells = [cell("a", 0, 0.4), cell("a", 1, 0.6), cell("b", 0, 0.5), cell("b", 1, 0.8)]
    first, second = table(cells)
    assert first["difference"] is None
    assert first["vault"] == {"mean": 0.5, "min": 0.4, "max": 0.6}
    assert second["difference"]["mean"] == pytest.approx(0.15)
    low, high = second["difference"]["ci"]
    assert low < 0.15 < high
    assert first["selection_gap"] == pytest.approx(0.0)
    assert second["selection_gap"] == pytest.approx(-0.15)


def test_a_missing_vault_score_is_no_zero():
    rows = table([cell("a", 0, None), cell("a", 1, 0.6)])
    assert rows[0]["vault"] == {"mean": 0.6, "min": 0.6, "max": 0.6}


async def test_equal_budgets_paired_seeds_and_nothing_run_twice(tmp_path):
    contenders = [
        contender("textgrad,steps=2,minibatch=6"),
        contender("ace,steps=2,batch=6"),
    ]
    told = []
    ask = {"overrides": QUICK, "runs": tmp_path}
    cells = await compare(WORLD, contenders, [0, 1], told=told.append, **ask)
    assert [(one.label, one.seed) for one in cells] == [(c.label, seed) for c in contenders for seed in (0, 1)]
    assert len(told) == 4
    assert all(one.rollouts <= 130 and one.vault is not None for one in cells)
    assert await compare(WORLD, contenders, [0, 1], **ask) == cells
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 4


async def test_the_same_agent_twice_is_no_comparison(tmp_path):
    with pytest.raises(InputError, match="twice"):
        await compare(WORLD, [contender("ace"), contender("ace")], [0], overrides={}, runs=tmp_path)


async def test_what_the_last_contender_lacks_is_said_before_the_first_is_run(tmp_path):
    for wrong, word in (("nobody", "nobody"), ("gepa,minibatch=0", "minibatch"), ('textgrad,frozen=["x"]', "frozen")):
        with pytest.raises(InputError, match=word):
            await compare(WORLD, [contender("ace"), contender(wrong)], [0], overrides=QUICK, runs=tmp_path)
    assert not list(tmp_path.iterdir())
