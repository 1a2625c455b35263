"""What `strop check` says of evals that can show no gain, do not fit the budget, or run what a candidate wrote."""

import pytest
from support.cheats import TESTS, make_inline, make_suite
from support.toy import STROP, make_toy

from harness.research import check as checking
from harness.research.check import check


@pytest.fixture(autouse=True)
def _proved(monkeypatch):
    """Another file proves the box."""

    async def selfcheck(boxes):
        return []

    monkeypatch.setattr(checking, "selfcheck", selfcheck)


async def states(subject, **overrides):
    return {one.name: one for one in await check(subject, overrides={"box.backend": "embedded", **overrides})}


PASSING = "import pytest\n\n\n@pytest.mark.parametrize('n', range(6))\ndef test_all(n):\n    assert True\n"


async def test_tests_that_pass_for_everybody_are_found(tmp_path):
    found = await states(make_suite(tmp_path / "suite", tests=PASSING))
    for name in ("smallest gain", "holdout", "tripwire", "emptied candidate"):
        assert found[name].state == "failed", name
    well = await states(make_suite(tmp_path / "well", tests=TESTS))
    assert well["smallest gain"].state == "ok"
    assert well["emptied candidate"].state == "ok"


async def test_tests_that_nothing_passes_are_doubted(tmp_path):
    found = await states(make_suite(tmp_path / "suite", tests=PASSING.replace("True", "False")))
    assert found["tripwire"].state == "warning"
    assert found["emptied candidate"].state == "warning"
    assert found["smallest gain"].state == "ok"


async def test_an_eval_that_looks_at_no_candidate_is_found(tmp_path):
    strop = STROP.replace('run = ["python", "train.py"]', 'run = ["python", "other.py"]')
    made = make_toy(tmp_path / "toy", strop=strop)
    (made / "other.py").write_text((made / "train.py").read_text())
    assert (await states(made))["emptied candidate"].state == "failed"
    found = await states(make_inline(tmp_path / "inline"))
    assert found["emptied candidate"].state == "ok"


async def test_a_step_must_fit_into_what_is_left_of_the_range(tmp_path):
    made = make_toy(tmp_path / "toy")  # its error is about 0.5
    states_of = {effect: (await states(made, **{"gate.min_effect": effect}))["smallest gain"] for effect in (0.3, 0.6)}
    assert states_of[0.3].state == "warning"
    assert states_of[0.6].state == "failed"
    assert "only 0.4988 left" in states_of[0.6].detail
    best = make_toy(tmp_path / "best", train=(made / "train.py").read_text().replace("20", "70"), targets={})
    best.joinpath("data/visible/labels/labels.csv").write_text("\n".join(f"v{n},70" for n in range(8)))
    assert (await states(best))["smallest gain"].state == "failed"
