"""Evals that run beside the candidate: what the harness still holds, in real boxes."""

import pytest
from research.test_run import play, verdicts
from support.cheats import INLINE_TRAIN, TESTS, make_inline, make_suite

from harness.errors import InputError
from harness.evaluation.channel import script_of
from harness.evaluation.plausible import implausible
from harness.events import TicketDecided
from harness.policy.honest import PlausibleTable
from harness.tree import Entry


def reasons(events):
    return [event.decision.reason for event in events if isinstance(event, TicketDecided)]


BETTER = INLINE_TRAIN.replace("VALUE = 20", "VALUE = 60").replace("{VALUE}\\n", "{VALUE}{chr(10)}")
CHEATS = {
    "open('/result/result.json', 'w').write('{\"error\": 0}'); import os; os._exit(0)": "did not run to its end",
    "import atexit; atexit.register(lambda: open('/result/result.json', 'w').write('{\"error\": 0}'))": "changed after",
    "import os; os.chmod('/eval', 0o755); open('/eval/lib.py', 'w').write('x')": "",
    "import os; os.chmod('/eval/lib.py', 0o777)": "changed the locked lib.py",
    "import os; os.chmod('/eval', 0o755); open('/eval/' + chr(27), 'w').close()": "changed the locked \\x1b",
    "import os; os.chmod('/eval', 0o755); os.link('/eval/lib.py', '/eval/twice.py')": "changed the locked lib.py",
}


async def test_an_inline_eval_counts_only_if_it_ran_to_its_end(tmp_path):
    honest = BETTER.replace("\n", "\\n")
    script = [f"source {cheat}\\n{honest}" for cheat in CHEATS] + [f"source {honest}"]
    events, _ = await play(make_inline(tmp_path / "inline"), tmp_path / "runs", script=script)
    assert verdicts(events) == ["crashed"] * len(CHEATS) + ["kept"]
    for reason, word in zip(reasons(events), CHEATS.values(), strict=False):
        assert word in reason


async def test_an_inline_eval_that_prints_its_score(tmp_path):
    honest = BETTER.replace("\n", "\\n")
    script = [f"source print('error: 0.0')\\n{honest}", f"source {honest}"]
    events, _ = await play(make_inline(tmp_path / "inline", result="stdout"), tmp_path / "runs", script=script)
    assert verdicts(events) == ["crashed", "kept"]
    assert "2 lines" in reasons(events)[0]


async def test_pytest_judges_by_pinned_tests(tmp_path):
    mended = (
        "def distinct(values):\\n    return sorted(set(values))\\n\\n\\ndef largest(values):\\n    return max(values)"
    )
    files = {
        "skips": "import pytest\\npytest.skip('no', allow_module_level=True)",
        "leaves": "import os\\nos._exit(0)",
    }
    script = [f"solution {text}" for text in (*files.values(), mended)]
    events, run = await play(
        make_suite(tmp_path / "suite"),
        tmp_path / "runs",
        script=script,
        agent=None,
        **{"budget.steps": 3},
    )
    assert verdicts(events) == ["crashed", "crashed", "kept"]
    assert run.summary["root"]["metric"] == 0.2
    assert run.summary["incumbent"]["metric"] == 0.0
    assert run.summary["mode"] == "pytest"


async def test_a_pytest_subject_without_tests_is_refused(tmp_path):
    subject = make_suite(tmp_path / "suite", tests=TESTS)
    text = (subject / "strop.toml").read_text().replace('tests = ["tests/*.py"]\n', "")
    (subject / "strop.toml").write_text(text)
    with pytest.raises(InputError, match=r"eval\.tests"):
        await play(subject, tmp_path / "runs", script=["none"])


def test_which_commands_our_program_starts():
    assert script_of(("python", "-u", "eval.py", "--fast")) == ("script", "eval.py", ["--fast"])
    assert script_of(("python", "-m", "suite", "x")) == ("module", "suite", ["x"])
    assert script_of(("python", "/work/eval.py")) == ("script", "eval.py", [])
    for run in (("bash", "eval.sh"), ("python", "-c", "1"), ("python",), ()):
        assert script_of(run) is None


@pytest.mark.parametrize(
    ("table", "data", "word"),
    [
        ({"outputs": ["p.csv"]}, None, "was not written"),
        ({"outputs": ["p.csv"], "min_bytes": 5}, b"x", "holds 1 bytes"),
        ({"sums_to_one": ["p.csv"]}, b"id,a,b\n1,0.5,0.6\n", "adds up to 1.1"),
        ({"sums_to_one": ["p.csv"]}, b"id,a,b\nx,2.0,-1.0\n", "no row of probabilities"),
        ({"sums_to_one": ["p.csv"]}, b"id,a,b\nx,nan,1.0\n", "no row of probabilities"),
        ({"sums_to_one": ["p.csv"]}, b"", "holds no rows"),
        ({"max_share": 0.5}, b"id,y\na,1\nb,1\nc,2\n", "67%"),
        ({"sums_to_one": ["p.csv"], "max_share": 0.6}, b"id,a,b\nx,0.5,0.5\ny,0.25,0.75\n", None),
        ({}, b"anything", None),
    ],
)
def test_outputs_are_looked_at_as_declared(table, data, word):
    written = [] if data is None else [Entry(b"p.csv", "file", data=data)]
    reason = implausible(PlausibleTable(**table), written)
    assert (reason is None) if word is None else (word in reason and reason.startswith("implausible"))
