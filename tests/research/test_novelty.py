import pytest

from harness.research.novelty import fingerprint, likeness
from harness.tree import File, Tree


def tree(text, **more):
    return Tree({"agent.py": File(text.encode()), **{path: File(data) for path, data in more.items()}})


@pytest.mark.parametrize(
    "same",
    [
        "def f(a, b):\n    return a + b\n",
        '"""About."""\n\n# a comment\ndef f(a,b):\n\n    """Doc."""\n    return a+b   # sum\n',
        "def f(a, b): return (a + b)\n",
    ],
)
def test_comments_and_layout_make_nothing_new(same):
    assert fingerprint(tree(same)) == fingerprint(tree("def f(a, b):\n    return a + b\n"))


@pytest.mark.parametrize(
    "other",
    [
        "def f(a, b):\n    return a - b\n",
        "def f(a, b):\n    '''Doc.'''\n",
        "def f(a, b:\n",
        "def g(a, b):\n    return a + b\n",
    ],
)
def test_code_does(other):
    assert fingerprint(tree(other)) != fingerprint(tree("def f(a, b):\n    return a + b\n"))


def test_other_files_count_byte_by_byte():
    one, two = tree("x = 1\n", notes=b"a b"), tree("x = 1\n", notes=b"a  b")
    assert fingerprint(one) != fingerprint(two)
    assert fingerprint(Tree({"a.py": File(b"x", True)})) != fingerprint(Tree({"a.py": File(b"x")}))


def test_likeness_is_that_of_the_files_that_differ():
    body = "".join(f"value_{n} = {n}\n" for n in range(100))
    assert likeness(tree(body), tree(body)) == 1.0
    assert likeness(tree(body), tree(body + "# more\n")) == 1.0
    assert 0.9 < likeness(tree(body), tree(body.replace("value_7 ", "value_x "))) < 1.0
    assert likeness(tree(body), tree("import os\nprint(os.name)\n")) < 0.05
