import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.policy.locks import Globs
from harness.repo.door import judge
from harness.repo.names import oddity
from harness.repo.shadows import imported, shadow
from harness.tree import File, Tree

ROOT = Tree(
    {
        "src/train.py": File(b"import os\nimport numpy as np, torch.nn\nfrom helpers import x\n"),
        "pkg/__init__.py": File(b""),
        "eval.py": File(b""),
    }
)
WIDE = Globs(("**",))


def named(path: str) -> Globs:
    return Globs(("**", path))


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
        "src/sub/conftest.py",
        "src/ｃｏｎｆｔｅｓｔ.py",
        "src/ConfTest.PY",
        "src/JSON.py",
        "src/encodings/__init__.py",
        "encodings/__init__.py",
        "src/numpy/__init__.py",
        "src/numpy.py",
        "numpy.cpython-311-x86_64-linux-gnu.so",
        "src/train/__init__.py",
        "src/train.abi3.so",
        "eval/__init__.py",
        "pkg/__init__.cpython-312-x86_64-linux-gnu.so",
        "src/train.pyc",
        "src/x.dist-info/entry_points.txt",
        "src/x.egg-info/PKG-INFO",
        "src/python311._pth",
        "src/pyvenv.cfg",
        "src/PyVenv.cfg",
        ".env",
        ".env.local",
        "Makefile",
        "src/GNUmakefile",
        "Dockerfile",
        "package.json",
        "pip.conf",
        "tox.ini",
        "src/pytest.toml",
        ".pdbrc",
        "src/.netrc",
        "src/matplotlibrc",
        "CLAUDE.md",
        "src/AGENTS.md",
        ".claude/settings.json",
        ".github/workflows/ci.yml",
        "src/.vscode/tasks.json",
        ".strop/runs/best/archive.sqlite",
        "src/strop.toml",
        "-rf",
        "src/--help.py",
        "~root/x",
        "src/aux.py",
        "NUL",
        "src/com1.txt",
        "src/train.py::$DATA",
        "src/a:b",
        "src/*.py",
    ],
)
def test_a_wide_glob_lets_nothing_in_that_configures_or_shadows(path):
    child = ROOT.changed({path: b"x"})
    (fault,) = judge(ROOT, child, WIDE)
    assert fault.kind == "added"
    assert "only `editable` that names it lets it in" in str(fault)
    assert judge(ROOT, child, named(path)) == []
    assert judge(ROOT, child, WIDE, new=False) == []
    assert judge(child, child.changed({path: b"y"}), WIDE) == []  # what the root had may change


@pytest.mark.parametrize(
    "path",
    [
        "src/model.py",
        "pkg/json.py",
        "pkg/types.py",
        "pkg/numpy.py",
        "notes.md",
        "src/data.csv",
        "json.txt",
        "src/layers/__init__.py",
        "src/config.toml",
        "prompts/system.md",
        "src/environment.py",
        "src/auxiliary.py",
        "src/a-b.py",
        "src/backup~",
    ],
)
def test_ordinary_new_files_are_let_in(path):
    assert judge(ROOT, ROOT.changed({path: b"x"}), WIDE) == []


def test_a_module_may_become_a_package_and_new_code_may_import_new_modules():
    grown = Tree(
        (path, file)
        for path, file in ROOT.changed({"src/train/__init__.py": b"", "src/train/layers.py": b""}).items()
        if path != "src/train.py"
    )
    assert judge(ROOT, grown, WIDE) == []
    both = ROOT.changed({"src/train.py": b"import torch, layers\n", "src/layers.py": b""})
    assert judge(ROOT, both, WIDE) == []


def test_imports_are_read_from_statements():
    tree = Tree({"a.py": File(b"import os.path as p, numpy\n  from torch.nn import x\nfrom . import y\n# import no\n")})
    assert imported(tree) == {"os", "numpy", "torch"}


def test_a_package_named_like_the_library_is_seen_at_its_init():
    child = ROOT.changed({"src/email/__init__.py": b"", "src/email/own.py": b""})
    assert [fault.path for fault in judge(ROOT, child, WIDE)] == ["src/email/__init__.py"]


@given(st.lists(st.text(st.characters(blacklist_characters="/\0"), min_size=1, max_size=8), min_size=1, max_size=4))
def test_any_path_is_judged_without_an_exception(parts):
    path = "/".join(parts)
    for others in ({path}, set[str]()):
        found = shadow(path, ROOT, others)
        assert found is None or found.startswith("a new file that")
        assert oddity(path) is None or "a name" in str(oddity(path))
