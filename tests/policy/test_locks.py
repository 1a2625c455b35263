import pytest

from harness.policy.locks import Globs


@pytest.mark.parametrize(
    ("pattern", "path", "hit"),
    [
        ("train.py", "train.py", True),
        ("train.py", "lib/train.py", False),
        ("train.py", "Train.py", False),
        ("*.py", "lib/train.py", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/deep/er/a.py", True),
        ("src/**", "src/.hidden", True),
        ("src/**", "srcs/a", False),
        ("**", "anything/at/all", True),
        ("[ab].txt", "a.txt", True),
        ("[ab].txt", "c.txt", False),
    ],
)
def test_globs_are_anchored_and_exact(pattern, path, hit):
    assert Globs((pattern,))(path) is hit


def test_barren_patterns_are_named():
    assert Globs(("a.py", "no/*.py")).barren(["a.py", "b.py"]) == ["no/*.py"]
