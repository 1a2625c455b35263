"""What `strop check` says of evals that can show no gain, do not fit the budget, or run what a candidate wrote."""

from types import SimpleNamespace

import anyio
import pytest
from support.cheats import TESTS, make_inline, make_suite
from support.toy import SCORE, STROP, make_toy

from harness import open_run
from harness.errors import InputError
from harness.records import Split
from harness.research.baseline import measure_root
from harness.research.bench import bench
from harness.research.engine import Engine
from harness.research.preflight import check as checking
from harness.research.preflight.check import check
from harness.research.preflight.running import running
from harness.research.vault import vault_s
from harness.tree import File, Tree


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


async def test_a_suite_that_skips_itself_says_that_no_test_ran(tmp_path):
    skipping = "import pytest\n\npytest.skip('not here', allow_module_level=True)\n"
    found = await states(make_suite(tmp_path / "suite", tests=skipping))
    assert "no test ran" in found["root"].detail


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


async def test_the_budget_is_measured_with_its_boxes(tmp_path):
    made = make_toy(tmp_path / "toy")
    short = (await states(made, **{"budget.wall_s": 1.0}))["budget"]
    assert short.state == "failed"
    assert "sure to cover 0 steps" in short.detail
    assert (await states(made))["budget"].state == "ok"


async def test_time_for_the_vault_is_kept_back_as_boxes_and_scorer_took_it(tmp_path):
    async with bench(make_toy(tmp_path / "toy"), overrides={"box.backend": "embedded"}) as (session, _):
        tree = await session.store.write(session.subject.root)
        await measure_root(session, tree)
        rollouts = session.rollouts
        assert rollouts.took[tree] > rollouts.longest_s > 0
        engine = Engine(session, 0.0, session.hold.clock.monotonic())
        await engine._keep_back()
        kept = session.policy.budget.wall_s - (engine._wall.deadline - anyio.current_time())
        assert kept >= 4 * rollouts.took[tree]  # root and best, and as much again
        rollouts.took.clear()
        await rollouts.recall()  # as a resumed session does
        assert rollouts.took[tree] > rollouts.longest_s


def test_a_larger_vault_gets_more_time():
    assert vault_s(session_of(vault=16, visible=4)) == 2 * 4 * (1.5 + 1.5)
    assert vault_s(session_of(vault=1, visible=4)) == 2 * (1.5 + 1.5)


@pytest.mark.parametrize(
    "source",
    [
        "import pickle as p\nwith open('/out/x', 'rb') as f:\n    said = p.load(f)",
        "from pickle import load\ndef read(path):\n    return load(open(path, 'rb'))\nread('/out/x')",
        "import numpy as np\nnp.load('/out/x.npy', allow_pickle=True)",
        "for row in open('/out/x'):\n    name, value = row.split(',')\n    print(eval(value))",
        "check = eval\nprint(check(open('/out/x').read()))",
        "for row in open('/out/x'):\n    print(getattr(__builtins__, 'ev' + 'al')(row))",
        "import sys\nsys.path.insert(0, '/out')",
        "import sys\nsys.path[:0] = ['/out']",
        "import subprocess\nsubprocess.run(['sh', '/out/post.sh'])",
        "import subprocess, sys\nsubprocess.run([sys.executable, '-I', '/out/post.py'], check=True)",
        "import subprocess\nsubprocess.run(['./post'], cwd='/out')",
        "import os\nos.system('sh /out/post.sh')",
        "import runpy\nfrom pathlib import Path\nout = Path('/out')\nrunpy.run_path(str(out / 'x.py'))",
        "import argparse, pickle\nargs = argparse.ArgumentParser().parse_args()\npickle.load(open(args.out, 'rb'))",
    ],
)
def test_scorers_that_run_outputs_are_found(source):
    assert running(Tree({"score.py": File(source.encode())})), source


@pytest.mark.parametrize(
    "source",
    [
        SCORE,
        "import pickle\nlabels = pickle.load(open('/labels/y.pkl', 'rb'))\nsaid = open('/out/x').read()",
        "import subprocess\nsubprocess.run(['diff', '/labels/x', '/out/x'])",
        "import numpy as np\nnp.load('/out/x.npy')",
        "import re\nwanted = re.compile(open('/out/x').read())\nmodel.eval()\neval('1 + 1')",
        "import sys\nsys.path.insert(0, '/eval')\nsaid = open('/out/x')",
        "import yaml\nyaml.load(open('/out/x'), Loader=yaml.SafeLoader)",
        "import torch\ntorch.load('/out/x', weights_only=True)",
    ],
)
def test_scorers_that_only_read_are_not(source):
    assert running(Tree({"score.py": File(source.encode())})) == [], source


def test_shells_and_commands_that_run_outputs_are_found():
    for line in ("sh /out/post.sh", ". /out/env", "if true; then /out/run; fi", "PYTHONPATH=/out python x.py"):
        assert running(Tree({"score.sh": File(line.encode())})), line
    assert (
        running(Tree({"score.sh": File(b"diff /labels/x /out/x\npython grade.py --out /out/x; cd /eval && ls")})) == []
    )
    assert running(Tree(), ["python", "/out/score.py"])
    assert running(Tree(), ["python", "score.py", "--out", "/out"]) == []


async def test_a_scorer_that_runs_outputs_fails(tmp_path):
    score = SCORE.replace("float(said[id])", "float(eval(said[id]))")
    found = await states(make_toy(tmp_path / "toy", score=score))
    assert found["scorer"].state == "failed"
    assert "score.py:6 evaluates" in found["scorer"].detail


async def test_a_scorer_that_says_one_thing_to_all_fails(tmp_path):
    fixed = SCORE.replace('{"error": sum(items.values()) / len(items), "items": items}', '{"error": 0.4}')
    found = await states(make_toy(tmp_path / "fixed", score=fixed))
    assert found["anchor: scrambled"].state == "failed"
    assert "no candidate can win" in found["anchor: scrambled"].detail
    plain = SCORE.replace(', "items": items', "")  # the root gives everyone one answer: scrambled it is the same
    assert (await states(make_toy(tmp_path / "plain", score=plain)))["anchor: scrambled"].state != "failed"


async def test_a_holdout_too_small_for_any_bound_fails(tmp_path):
    made = make_toy(tmp_path / "toy")
    assert (await states(made))["holdout"].state == "failed"
    assert (await states(made, **{"budget.steps": 1}))["holdout"].state == "warning"


async def test_a_root_that_nearly_times_out_is_named(tmp_path):
    async with bench(make_toy(tmp_path / "toy"), overrides={"box.backend": "embedded"}) as (session, _):
        session.rollouts.longest_s = 7.5  # of 10 s
        assert [one.state for one in checking._timeout(session)] == ["warning"]
        session.rollouts.longest_s = 2.0
        assert checking._timeout(session) == []


def session_of(*, vault, visible):
    """As much of a session as `vault_s` reads."""
    sized = {
        split: SimpleNamespace(inputs=Tree({"x": File(b"x" * size)}))
        for split, size in ((Split.VAULT, vault), (Split.VISIBLE, visible))
    }
    root = SimpleNamespace(tree="tree")
    return SimpleNamespace(
        has=lambda _: True,
        rollouts=SimpleNamespace(took={"tree": 1.5}),
        standing=SimpleNamespace(variants={"v0": root}, incumbent=root, deterministic=True),
        subject=SimpleNamespace(splits=sized),
    )


async def test_a_subject_whose_agent_needs_a_model_is_looked_at_without_one(tmp_path):
    subject = make_toy(tmp_path / "toy")
    chat = {"agent.name": "chat", "models.main.base_url": "http://127.0.0.1:9/v1"}
    async with bench(subject, overrides=chat) as (session, _):
        assert session.policy.agent.name == "chat"


async def test_an_agent_that_is_not_in_its_box_is_found_before_the_night(tmp_path):
    toy = make_toy(tmp_path / "toy")
    agent = {"agent.name": "command", "agent.config": {"argv": ["no-such-agent", "{prompt}"]}}
    found = await states(toy, **agent)
    assert found["agent"].state == "failed"
    assert "no program 'no-such-agent'" in found["agent"].detail
    well = await states(toy, **{**agent, "agent.config": {"argv": ["sh", "-c", "true"]}})
    assert well["agent"].state == "ok"
    assert "agent" not in await states(toy)
    with pytest.raises(InputError, match="no program 'no-such-agent'"):
        async with open_run(toy, runs=tmp_path / "runs", overrides={"box.backend": "embedded", **agent}):
            pass
    assert not list((tmp_path / "runs").glob("*"))


async def test_a_model_budget_that_cannot_hold_one_call_is_doubted_and_listed_prices_are_known(tmp_path):
    named = {"base_url": "http://127.0.0.1:9/v1", "model": "gpt-5-mini"}
    tight = {"agent.name": "command", "agent.config": {"preset": "codex"}, "models.main": named}
    found = await states(make_toy(tmp_path / "a"), **tight, **{"budget.tokens_in": 30000, "budget.usd": 10.0})
    assert found["prices"].state == "ok"
    assert found["model budget"].state == "warning"
    assert "budget.tokens_in = 30000" in found["model budget"].detail
    assert "usd" not in found["model budget"].detail
    wide = await states(make_toy(tmp_path / "b"), **tight, **{"budget.tokens_in": 3_000_000, "budget.usd": 0.001})
    assert "budget.usd = 0.001" in wide["model budget"].detail
    own = {**named, "model": "my-own"}
    found = await states(make_toy(tmp_path / "c"), **{**tight, "models.main": own, "budget.tokens_in": 3_000_000})
    assert found["prices"].state == "warning"
    assert "model budget" not in found
