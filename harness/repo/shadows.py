"""New files that would change what an interpreter, a test run, a shell or a package manager does.

A wide glob does not let them in: only one that names the file. What the root already has may be edited where it is
editable; the eval was trusted with it there.
"""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Iterable

_CONFIGURES = (
    (("sitecustomize.py", "usercustomize.py", "*.pth", "*.pyc", "*.pyo", "pyvenv.cfg"), "a Python start"),
    (("conftest.py", "pytest.ini", "tox.ini", "noxfile.py", ".coveragerc", "setup.cfg"), "a test run"),
    ((".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".envrc", ".env", ".inputrc"), "a shell"),
    (
        (
            "pyproject.toml",
            "setup.py",
            "requirements*.txt",
            "constraints*.txt",
            "pipfile",
            "pipfile.lock",
            "poetry.lock",
            "uv.lock",
            "pip.conf",
            "package.json",
            "package-lock.json",
            ".npmrc",
            "environment.yml",
        ),
        "a package manager",
    ),
    ((".gitattributes", ".gitconfig", ".gitignore"), "git"),
)
_FOLDERS = {
    "__pycache__": "a Python start",
    ".venv": "a Python start",
    "venv": "a Python start",
    "site-packages": "a Python start",
    "node_modules": "a package manager",
    ".ssh": "a shell",
}
_LIBRARY = frozenset(sys.stdlib_module_names)


def shadow(path: str, others: Iterable[str]) -> str | None:
    """What a new file at `path` would configure or shadow, in words; None if nothing. `others` are the tree's paths."""
    *folders, name = path.split("/")
    for folder in folders:
        if folder.casefold() in _FOLDERS:
            return f"a new file that configures {_FOLDERS[folder.casefold()]}"
    for patterns, what in _CONFIGURES:
        if any(fnmatch.fnmatchcase(name.casefold(), pattern) for pattern in patterns):
            return f"a new file that configures {what}"
    module = _imported_as(folders, name, frozenset(others))
    if module in _LIBRARY:
        return f"a new file that shadows the library's {module}"
    return None


def _imported_as(folders: list[str], name: str, others: frozenset[str]) -> str | None:
    """The top-level module a file could be imported as; None inside a package, whose parts have longer names."""
    stem, dot, ending = name.partition(".")
    is_module = dot and (ending == "py" or ending.endswith(("so", "pyd")))
    if not is_module:
        return None
    if folders and f"{'/'.join(folders)}/__init__.py" in others:
        return folders[-1] if stem == "__init__" and not _in_package(folders[:-1], others) else None
    return stem


def _in_package(folders: list[str], others: frozenset[str]) -> bool:
    return bool(folders) and f"{'/'.join(folders)}/__init__.py" in others
