import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.policy.locks import Globs
from harness.repo.door import judge
from harness.repo.shadows import shadow
from harness.tree import File, Tree

ROOT = Tree({"src/train.py": File(b"x"), "pkg/__init__.py": File(b""), "eval.py": File(b"")})
WIDE = Globs(("**",))


@pytest.mark.parametrize(
    "path",
    [
        "sitecustomize.py",
        "src/usercustomize.py",
        "src/json.py",
        "src/random/__init__.py",
        "src/os.cpython-311-x86_64-linux-gnu.so",
        "CONFTEST.py",
        "src/pytest.ini",
        "setup.cfg",
        "pyproject.toml",
        "src/__pycache__/train.cpython-311.pyc",
        ".venv/bin/python",
        "node_modules/x/index.js",
        ".bashrc",
        "requirements-dev.txt",
        "x.pth",
        ".npmrc",
        ".gitattributes",
    ],
)
def test_a_wide_glob_lets_nothing_in_that_configures_or_shadows(path):
    child = ROOT.changed({path: b"x"})
    (fault,) = judge(ROOT, child, WIDE)
    assert fault.kind == "added"
    assert "a new file that" in str(fault)
    assert judge(ROOT, child, Globs(("**", path))) == []
    assert judge(child, child.changed({path: b"y"}), WIDE) == []  # what the root had may change


@pytest.mark.parametrize(
    "path", ["src/model.py", "pkg/json.py", "pkg/types.py", "notes.md", "src/data.csv", "json.txt"]
)
def test_ordinary_new_files_are_let_in(path):
    assert judge(ROOT, ROOT.changed({path: b"x"}), WIDE) == []


def test_a_package_named_like_the_library_is_seen_at_its_init():
    child = ROOT.changed({"src/email/__init__.py": b"", "src/email/own.py": b""})
    assert [fault.path for fault in judge(ROOT, child, WIDE)] == ["src/email/__init__.py"]


@given(st.lists(st.text(st.characters(blacklist_characters="/\0"), min_size=1, max_size=8), min_size=1, max_size=4))
def test_any_path_is_judged_without_an_exception(parts):
    path = "/".join(parts)
    assert shadow(path, [path]) is None or shadow(path, []) is not None
