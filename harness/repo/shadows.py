"""New files that would change what an interpreter, a test run, a shell, a package manager or another agent does.

A wide glob does not let them in: only one that names the file. What the root already has may be edited where it is
editable; the eval was trusted with it there.
"""

from __future__ import annotations

import fnmatch
import re
import sys
import unicodedata
from collections.abc import Mapping, Set
from functools import lru_cache

from harness.tree import File

_PYTHON, _TESTS, _SHELL, _BUILD = "a Python start", "a test run", "a shell", "a build"
_PACKAGES, _GIT, _AGENT, _TOOL = "a package manager", "git", "an agent's instructions", "a tool"
_CONFIGURES = (
    (("sitecustomize.py", "usercustomize.py", "*.pth", "*._pth", "*.egg-link", "*.start"), _PYTHON),
    (("*.pyc", "*.pyo", "pyvenv.cfg", "pybuilddir.txt", "__pyvenv__.cfg", ".pythonrc*", ".pdbrc*"), _PYTHON),
    (("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "tox.toml"), _TESTS),
    (("noxfile.py", ".coveragerc", "setup.cfg", "nose.cfg", ".noserc", "jest.config.*", "vitest.config.*"), _TESTS),
    ((".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile"), _SHELL),
    ((".envrc", ".env", ".env.*", ".inputrc", ".login", ".cshrc", ".kshrc", ".tmux.conf", ".mise.toml"), _SHELL),
    (("makefile", "gnumakefile", "*.mk", "justfile", ".justfile", "taskfile.y*ml", "rakefile", "dodo.py"), _BUILD),
    (("dockerfile", "dockerfile.*", "containerfile", ".dockerignore", "docker-compose*.y*ml", "compose.y*ml"), _BUILD),
    (("cmakelists.txt", "meson.build", "build.rs", "build.ninja", ".gitlab-ci.y*ml", "jenkinsfile"), _BUILD),
    ((".pre-commit-config.yaml", ".travis.yml", "azure-pipelines.yml", "sconstruct", "wscript"), _BUILD),
    (("pyproject.toml", "setup.py", "requirements*.txt", "constraints*.txt", "pipfile", "pipfile.lock"), _PACKAGES),
    (("poetry.lock", "poetry.toml", "uv.lock", "uv.toml", "pdm.lock", "pdm.toml", ".pdm.toml", "pip.conf"), _PACKAGES),
    (("pip.ini", ".pypirc", ".condarc", "environment.y*ml", "conda*.y*ml", ".pydistutils.cfg"), _PACKAGES),
    (("distutils.cfg", "package.json", "package-lock.json", ".npmrc", "npm-shrinkwrap.json", ".yarnrc*"), _PACKAGES),
    (("yarn.lock", "pnpm-lock.yaml", "pnpm-workspace.yaml", ".pnpmfile.cjs", "bunfig.toml", "deno.json*"), _PACKAGES),
    (("cargo.toml", "cargo.lock", "go.mod", "go.sum", "go.work", "gemfile", "gemfile.lock", ".gemrc"), _PACKAGES),
    ((".gitattributes", ".gitconfig", ".gitignore", ".mailmap", ".lfsconfig"), _GIT),
    (
        ("agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md", "copilot-instructions.md"),
        _AGENT,
    ),
    ((".cursorrules", ".windsurfrules", ".clinerules", ".roorules", ".aider*", ".mcp.json", "opencode.json*"), _AGENT),
    (("program.md", "skill.md", "qwen.md", "crush.md", ".goosehints", ".rules"), _AGENT),
    ((".netrc", "_netrc", ".curlrc", ".wgetrc", ".gdbinit", ".lldbinit", ".exrc", ".vimrc", ".nvimrc"), _TOOL),
    (("matplotlibrc", ".numba_config.yaml", "openssl.cnf", "ld.so.preload", "ld.so.conf", "sudoers"), _TOOL),
    (("strop.toml",), "Strop"),
)
_FOLDERS = {
    **dict.fromkeys(("__pycache__", ".venv", "venv", "site-packages", "dist-packages", ".ipython"), _PYTHON),
    **dict.fromkeys(("node_modules", ".pip", ".cargo", ".bundle", ".yarn", ".conda"), _PACKAGES),
    **dict.fromkeys((".github", ".gitlab", ".circleci", ".devcontainer", ".husky", ".buildkite"), _BUILD),
    **dict.fromkeys((".claude", ".codex", ".cursor", ".gemini", ".opencode", ".windsurf", ".continue"), _AGENT),
    **dict.fromkeys((".ssh", ".gnupg", ".aws", ".docker", ".config", ".vscode", ".idea"), _TOOL),
    ".strop": "Strop",
}
_FOLDER_ENDINGS = ((".egg-info", _PYTHON), (".dist-info", _PYTHON), (".egg", _PYTHON))
_LIBRARY = frozenset(name.casefold() for name in sys.stdlib_module_names)
_IMPORT = re.compile(rb"^[ \t]*(?:import[ \t]+([\w., \t]+)|from[ \t]+(\w+)[\w.]*[ \t]+import\b)", re.MULTILINE)
_SCANNED = 2**20


def shadow(path: str, parent: Mapping[str, File], others: Set[str]) -> str | None:
    """What a new file at `path` would configure or shadow, in words; None if nothing.

    `parent` is the tree it is new to, `others` the paths of the tree that holds it.
    """
    configured = _configures(path)
    if configured is not None:
        return f"a new file that configures {configured}"
    shadowed = _twin(path, parent, others) or _module_shadowed(path, parent, others)
    return f"a new file that shadows {shadowed}" if shadowed else None


def _configures(path: str) -> str | None:
    *folders, name = (_plain(part) for part in path.split("/"))
    for folder in folders:
        what = _FOLDERS.get(folder) or next((what for end, what in _FOLDER_ENDINGS if folder.endswith(end)), None)
        if what is not None:
            return what
    return next(
        (what for patterns, what in _CONFIGURES if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)),
        None,
    )


def _module_shadowed(path: str, parent: Mapping[str, File], others: Set[str]) -> str | None:
    module = _imported_as(path, others)
    if module is None:
        return None
    if _plain(module) in _LIBRARY:
        return f"the library's {module}"
    return f"the installed {module}" if module in imported(parent) and not _provided(module, parent) else None


def imported(tree: Mapping[str, File]) -> frozenset[str]:
    """The top-level modules that a tree's Python files import by statement."""
    files = (_imported_by(file.data) for path, file in tree.items() if path.endswith(".py"))
    return frozenset[str]().union(*files)


@lru_cache(maxsize=512)
def _imported_by(source: bytes) -> frozenset[str]:
    found: set[str] = set()
    for several, one in _IMPORT.findall(source[:_SCANNED]):
        for name in several.split(b",") if several else [one]:
            words = name.split()
            if words:
                found.add(words[0].split(b".")[0].decode("ascii", "replace"))
    return frozenset(found)


def _plain(part: str) -> str:
    """A name as a careless comparison would see it."""
    return unicodedata.normalize("NFKC", part).casefold()


def _provided(module: str, tree: Mapping[str, File]) -> bool:
    """Whether the tree has a module or package of that name anywhere."""
    return any(f"/{path}".endswith(f"/{module}.py") or f"/{module}/" in f"/{path}" for path in tree)


def _twin(path: str, parent: Mapping[str, File], others: Set[str]) -> str | None:
    """The parent's module of the same folder that Python would no longer find: packages and extensions go first."""
    folder, _, name = path.rpartition("/")
    stem, dot, ending = name.partition(".")
    place = f"{folder}/{stem}" if folder else stem
    twins: tuple[str, ...] = ()
    if name == "__init__.py":
        twins = (f"{folder}.py",)
    elif dot and ending != "py" and ending.endswith(("so", "pyd")):
        twins = (f"{place}.py", f"{place}/__init__.py")
    return next((twin for twin in twins if twin in others and twin in parent), None)


def _imported_as(path: str, others: Set[str]) -> str | None:
    """The top-level module a file could be imported as; None inside a package, whose parts have longer names."""
    *folders, name = path.split("/")
    stem, dot, ending = name.partition(".")
    is_module = dot and (ending == "py" or ending.endswith(("so", "pyd")))
    if not is_module:
        return None
    if folders and f"{'/'.join(folders)}/__init__.py" in others:
        return folders[-1] if stem == "__init__" and not _in_package(folders[:-1], others) else None
    return stem


def _in_package(folders: list[str], others: Set[str]) -> bool:
    return bool(folders) and f"{'/'.join(folders)}/__init__.py" in others
