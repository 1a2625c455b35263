"""The user's own Python, as read-only folders of a box: its environment, its base, whatever links lead to them.

Only the parts that hold a Python are bound (bin, lib and the like), never a whole prefix: an environment made in a
project's own folder must not show the project's labels to a candidate.
"""

from __future__ import annotations

import contextlib
import os
import site
import sys
from dataclasses import dataclass
from pathlib import Path

_PARTS = ("bin", "lib", "lib64", "libexec", "include", "share", "etc", "ssl", "pyvenv.cfg")
_WHOLE = ("/nix/store", "/home/linuxbrew/.linuxbrew", "/opt/homebrew")
_SYSTEM = ("/usr",)


@dataclass(frozen=True, slots=True)
class Bind:
    """A host path shown read-only at `at` in the box; a `device` node is shown as one."""

    source: str
    at: str
    device: bool = False


@dataclass(frozen=True, slots=True)
class Python:
    """What a box needs for `executable` to run there as it does here."""

    executable: str
    binds: tuple[Bind, ...]
    env: dict[str, str]


def current_python() -> Python:
    """The Python that runs Strop."""
    executable = str(Path(sys.executable).absolute())
    roots = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, *_hops(executable)]
    binds: dict[str, str] = {}
    for root in roots:
        for spelled in (root, os.path.realpath(root)):
            binds.update(_parts(spelled))
    env: dict[str, str] = {}
    user = site.getusersitepackages() if site.ENABLE_USER_SITE and sys.prefix == sys.base_prefix else ""
    if user and Path(user).is_dir():
        binds[user] = os.path.realpath(user)
        env["PYTHONUSERBASE"] = site.getuserbase()
    return Python(executable, tuple(Bind(source, at) for at, source in sorted(binds.items())), env)


def parts_of(executable: str) -> tuple[str, ...]:
    """The folders outside the system's that hold what the links of `executable` lead to: the base of an environment
    made with a Python of the user's own (uv, pyenv, conda)."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError):  # what may not be looked at cannot be shown either
        for root in _hops(executable):
            for spelled in (root, os.path.realpath(root)):
                if any(Path(spelled).glob("lib/python3*")):
                    found.update(_parts(spelled))
    return tuple(sorted(found))


def _hops(executable: str) -> list[str]:
    """The prefix of every link between `executable` and the file it stands for."""
    roots: list[str] = []
    path = executable
    for _ in range(40):
        if not Path(path).is_symlink():
            break
        path = os.path.normpath(Path(path).parent / Path(path).readlink())
        roots.append(str(Path(path).parent.parent))
    return roots


def _parts(root: str) -> dict[str, str]:
    """{path in the box: host path} for the parts of one prefix that are not in the system folders anyway."""
    for whole in _WHOLE:
        if root == whole or root.startswith(whole + "/"):
            return {whole: os.path.realpath(whole)}
    if root == "/" or any(root == system or root.startswith(system + "/") for system in _SYSTEM):
        return {}
    found: dict[str, str] = {}
    for part in _PARTS:
        path = Path(root) / part
        if path.exists():
            found[str(path)] = os.path.realpath(path)
    return found
