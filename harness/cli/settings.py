"""What the command line says about a run, as the dotted policy keys it overrides."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

from harness.errors import InputError
from harness.resources import resource

_WALL = re.compile(r"(\d+(?:\.\d+)?)([smh]?)", re.ASCII)
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_KEY = re.compile(r"[a-z_]\w*(\.[A-Za-z_][\w-]*)*", re.ASCII)


def gather(
    settings: Sequence[str],
    *,
    agent: str | None = None,
    steps: int | None = None,
    rollouts: int | None = None,
    wall: str | None = None,
    box: str | None = None,
    control: str | None = None,
) -> dict[str, object]:
    """The overrides of one `strop run` or `strop resume`. Giving a key twice is an InputError."""
    named: dict[str, object] = {
        "agent.name": agent,
        "budget.steps": counted("--steps", steps),
        "budget.rollouts": counted("--rollouts", rollouts),
        "budget.wall_s": None if wall is None else seconds(wall),
        "box.backend": box,
        "archive.control": None if control is None else control.replace("-", "_"),
    }
    chosen = {key: value for key, value in named.items() if value is not None}
    for setting in settings:
        key, value = parse(setting)
        if key in chosen:
            raise InputError("set twice, by --set or an option", file="--set", key=key, mend="give it once")
        chosen[key] = value
    return chosen


def counted(flag: str, value: int | None) -> int | None:
    """`value`, if there can be so many. Raises InputError that names the flag."""
    if value is not None and value < 1:
        raise InputError(f"must be at least 1, not {value}", file=flag, mend="leave it out for the policy's own")
    return value


def parse(setting: str) -> tuple[str, object]:
    """`KEY=VALUE` with VALUE read as TOML where it is TOML, and as text where it is not."""
    key, equals, value = (part.strip() for part in setting.partition("="))
    if not equals or not _KEY.fullmatch(key):
        raise InputError(f"{setting!r} is not KEY=VALUE", file="--set", mend="for example: --set budget.steps=20")
    try:
        parsed = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        return key, value
    return key, parsed["value"] if set(parsed) == {"value"} else value


def seconds(text: str) -> float:
    """`90`, `90s`, `30m` or `8h` in seconds."""
    match = _WALL.fullmatch(text.strip())
    if match is None:
        raise InputError(f"{text!r} is not a time", file="--wall", mend="for example: 90, 90s, 30m or 8h")
    found = float(match[1]) * _SECONDS[match[2]]
    if found <= 0:
        raise InputError("must be more than 0", file="--wall", mend="for example: 90, 90s, 30m or 8h")
    return found


def policy_path(policy: str | None) -> str | None:
    """A policy file is looked for where the command was given, and only then beside the subject."""
    if policy is not None and policy.endswith(".toml") and Path(policy).is_file():
        return str(Path(policy).resolve())
    return policy


def find_subject(folder: Path) -> Path:
    """`folder`, if it is one. The error for a starter subject says where this installation keeps it."""
    if folder.is_dir():
        return folder
    shipped = resource("archives") / folder.name
    if shipped.is_dir():
        mend = f"the starter subject of that name is at {shipped}"
    else:
        mend = "give the folder that holds your strop.toml, or write one with: strop init FOLDER"
    raise InputError("no such folder" if not folder.exists() else "not a folder", file=folder, mend=mend)
