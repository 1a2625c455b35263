"""What agents in a box may be told in `[policy.agent.config]`, and what is wrong with what they were told."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.box.base import FOLDERS, TMP
from harness.errors import InputError

PresetName = Literal["claude", "codex", "gemini", "opencode", "aider", "mini-swe-agent", "generic"]
AcpName = Literal["gemini", "opencode", "generic"]


class BoxedConfig(BaseModel):
    """What every agent in a box may be told in `[policy.agent.config]`.

    `model` is what it is to ask for, by default the policy's first; `mounts` are absolute host folders it needs to see
    (its virtual environment or node installation), each at its own path, with its `bin` and `node_modules/.bin` before
    the box's own PATH; `env` are NAME=value lines; `drop` are globs of files it leaves lying about; `instructions` are
    added to the prompt.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = ""
    mounts: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    instructions: str = ""
    history: int = Field(default=20, ge=0)
    deadline_s: float = Field(default=900.0, gt=0)
    memory_mb: int = Field(default=4096, ge=64)
    pids: int = Field(default=512, ge=16)
    disk_mb: int = Field(default=1024, ge=16)
    git: bool = True


class CommandConfig(BoxedConfig):
    """`preset` names a known agent; `argv` is a template of your own (see `harness.agent.presets`)."""

    preset: PresetName = "generic"
    argv: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


class PythonConfig(BoxedConfig):
    """`file` is your module, `function` what is called in it with one dictionary, in the folder with the tree.

    The first virtual environment among `mounts` gives the Python that calls it.
    """

    file: str
    function: str = "improve"


class AcpConfig(BoxedConfig):
    """`argv` starts an agent that speaks the Agent Client Protocol on its standard streams; or `preset` names one."""

    preset: AcpName = "generic"
    argv: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


_Config = TypeVar("_Config", bound=BoxedConfig)
_KEY = "policy.agent.config"
_PLACEHOLDERS = ("prompt", "prompt_file", "model", "editable")
_BRACED = re.compile(r"(?<!\$)\{([a-z_-]+)\}")
_TAKEN = (*FOLDERS, TMP, "/proc", "/dev", "/sys", "/run")


def read(model: type[_Config], config: Mapping[str, object] | None, name: str) -> _Config:
    """The settings of the agent called `name`. Raises InputError that names the key."""
    given = dict(config or {})
    if isinstance(folders := given.get("mounts"), (list, tuple)):
        given["mounts"] = [str(Path(str(folder)).expanduser()) for folder in cast("Sequence[object]", folders)]
    try:
        found = model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join([_KEY, *map(str, first["loc"])])
        if first["type"] == "tuple_type":
            mend = f'write {first["loc"][-1]} = ["..."], one string for each'
            raise InputError("must be a list of strings", key=key, mend=mend) from None
        known = ", ".join(sorted(model.model_fields))
        raise InputError(first["msg"], key=key, mend=f"the {name} agent knows {known}") from None
    for folder in found.mounts:
        if (wrong := _unfit(Path(folder))) is not None:
            problem, mend = wrong
            raise InputError(f"{folder!r} {problem}", key=f"{_KEY}.mounts", mend=mend)
    return found


def check_words(argv: tuple[str, ...]) -> None:
    """Raises InputError for a placeholder that was probably meant to be another."""
    for word in argv:
        for name in cast("list[str]", _BRACED.findall(word)):
            near = get_close_matches(name, _PLACEHOLDERS, n=1, cutoff=0.6)
            if name not in _PLACEHOLDERS and near:
                mend = f"write {{{near[0]}}}; there are " + ", ".join(f"{{{one}}}" for one in _PLACEHOLDERS)
                raise InputError(f"{{{name}}} is no placeholder", key=f"{_KEY}.argv", mend=mend)


def _unfit(folder: Path) -> tuple[str, str] | None:
    """(what is wrong with a folder to lay into a box, what to do), or None."""
    return _misplaced(folder) or _unreadable(folder) or _unfit_python(folder / "bin" / "python")


def _misplaced(folder: Path) -> tuple[str, str] | None:
    if not folder.is_absolute():
        return "is no absolute path", "give folders as they are on this machine, such as /home/me/venv"
    if any(Path(place).is_relative_to(folder) for place in _TAKEN):
        return (
            "would hide what the box itself has there",
            "give the agent's own folder, such as its virtual environment",
        )
    if any(folder.is_relative_to(place) for place in FOLDERS):
        return "lies where the box keeps its own files", "give the agent a folder elsewhere on this machine"
    return None


def _unreadable(folder: Path) -> tuple[str, str] | None:
    try:
        there, plain = folder.exists(), folder.is_dir()
    except OSError as error:
        return f"cannot be looked at: {error.strerror}", "give a folder that you may read"
    if not there:
        return "is not there", "give a folder of this machine, such as a virtual environment"
    if not plain:
        return "is a file", "give the folder it lies in"
    if not os.access(folder, os.R_OK | os.X_OK):
        return "is not yours to read", "give a folder that you may read, or install the agent in one"
    return None


def _unfit_python(program: Path) -> tuple[str, str] | None:
    try:
        if program.is_symlink() and not program.exists():
            return f"is an environment whose Python is gone: {program.readlink()}", "make the environment anew"
    except OSError:
        return (
            "is an environment over a Python that you may not read",
            "make the environment anew, with one that you may",
        )
    return None
