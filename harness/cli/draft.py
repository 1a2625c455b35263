"""A strop.toml in the making: what is known, what is missing, and the text, checked as the loader would."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from harness.errors import InputError, StorageError

QUESTIONS = {
    "mode": "How is a variant judged: split (a second box scores its outputs) or inline (the eval imports it)?",
    "editable": "Which paths may an agent change (globs, separated by commas)?",
    "run": "Which command runs a variant?",
    "metric": "What is the number called?",
    "direction": "Is lower better or higher (min or max)?",
    "result": "Where is the number read from: file (/result/result.json) or stdout?",
    "score": "Which command scores the outputs, in the second box?",
    "visible": "Which folder holds the visible split (inputs/ and labels/)?",
    "holdout": "Which folder holds the holdout split?",
    "vault": "Which folder holds the vault split?",
}
_ALWAYS = ("mode", "editable", "run", "metric", "direction")
_BY_MODE = {"inline": ("result",), "split": ("score", "visible")}
_NEEDED_BY_MODE = "--mode inline also --result, with --mode split also --score --visible --holdout --vault"
_CHOICES = {"mode": ("split", "inline"), "direction": ("min", "max"), "result": ("file", "stdout")}
_COMMANDS = ("run", "score")


class Draft:
    """What `strop init` knows. `given` came from the user and wins over what was recognised."""

    def __init__(self, folder: Path, given: Mapping[str, object]) -> None:
        self.folder = folder
        self.given = dict(given)
        self.values = {key: _checked(key, value) for key, value in given.items()}

    def fill(self, recognised: Mapping[str, object]) -> None:
        """Take recognised values for what was not given; they are of an inline subject, and no use for another."""
        if self.given.get("mode", "inline") == "inline":
            self.values = {**recognised, **self.values}

    def answer(self, key: str, text: str) -> None:
        """Take an answer. Raises InputError when it is not one of the choices."""
        value = [part.strip() for part in text.split(",") if part.strip()] if key == "editable" else text.strip()
        self.values[key] = _checked(key, value)

    def missing(self) -> list[str]:
        """The keys still needed, in the order to ask for them."""
        needed = [*_ALWAYS, *_BY_MODE.get(str(self.values.get("mode")), ())]
        if self.values.get("mode") == "split" and not self.values.get("allow_missing"):
            needed += ["holdout", "vault"]
        return [key for key in needed if not self.values.get(key)]

    def shown(self, key: str) -> str:
        """A value as it will stand in the file."""
        return _toml(self.values[key])

    def text(self) -> str:
        """The file. Raises InputError that names every missing flag, or the value the loader would refuse."""
        if missing := self.missing():
            flags = " ".join(f"--{key}" for key in missing)
            further = "" if "mode" in self.values else f"; with {_NEEDED_BY_MODE}"
            raise InputError(
                f"no terminal to ask on, and nothing tells: {', '.join(missing)}", mend=f"give {flags}{further}"
            )
        values = self.values
        lines = ["[subject]", f"name = {_toml(values.get('name') or self.folder.resolve().name)}"]
        lines += [f"editable = {_toml(values['editable'])}", "", "[eval]", f"mode = {_toml(values['mode'])}"]
        keys = ("run", "score", "metric", "direction", "range", "timeout_s", "result")
        lines += [f"{key} = {_toml(values[key])}" for key in keys if key in values]
        splits = [
            f"{key} = {_toml(values[key])}" for key in ("visible", "holdout", "vault", "allow_missing") if key in values
        ]
        if splits:
            lines += ["", "[splits]", *splits]
        return "\n".join([*lines, "", "[policy]", 'use = "guarded"', ""])

    def write(self, path: Path) -> None:
        """Check the file as `strop run` would, then put it in place whole. Never replaces one."""
        text = self.text()
        self._check(text, path)
        try:
            handle, draft = tempfile.mkstemp(prefix=".strop.toml.", dir=path.parent)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                Path(draft).chmod(0o644)
                path.hardlink_to(draft)
            finally:
                Path(draft).unlink()
        except FileExistsError as error:
            raise InputError("is there already", file=path, mend="edit it; strop init never overwrites") from error
        except OSError as error:
            mend = "free space or fix permissions, then give the command again; nothing was written"
            raise StorageError(path, reason=error.strerror or str(error), mend=mend) from error

    def _check(self, text: str, path: Path) -> None:
        from pydantic import ValidationError

        from harness.policy.load import explain
        from harness.policy.schema import SubjectFile

        try:
            file = SubjectFile.model_validate(tomllib.loads(text))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(str(part) for part in first["loc"])
            message, _ = explain(first, key, SubjectFile)
            raise InputError(message, file=path, key=key, mend="nothing was written; correct the flag") from None
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"a value cannot be written as TOML: {error}", file=path, mend="use plain text") from None
        for glob in file.subject.editable:
            if not any(found.is_file() for found in _matching(self.folder, glob)):
                raise InputError(
                    f"{glob!r} matches no file",
                    file=path,
                    key="subject.editable",
                    mend="nothing was written; give --editable",
                )
        for split in ("visible", "holdout", "vault"):
            place = self.values.get(split)
            if place and not all((self.folder / str(place) / part).is_dir() for part in ("inputs", "labels")):
                raise InputError(
                    f"{place} has no inputs/ and labels/", file=path, key=f"splits.{split}", mend="nothing was written"
                )


def parse_range(text: str) -> list[float]:
    """`0,1` as two numbers."""
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{text!r} is not LOW,HIGH", file="--range", mend="for example: --range 0,1") from None
    return [low, high]


def _checked(key: str, value: object) -> object:
    if key in _CHOICES and value not in _CHOICES[key]:
        raise InputError(
            f"{value!r} is not one of {', '.join(_CHOICES[key])}", file=f"--{key}", mend="give one of them"
        )
    if key in _COMMANDS and isinstance(value, str):
        try:
            return shlex.split(value)
        except ValueError as error:
            raise InputError(f"{value!r}: {error}", file=f"--{key}", mend="quote it as for a shell") from None
    return value


def _matching(folder: Path, glob: str) -> list[Path]:
    try:
        return list(folder.glob(glob))
    except (ValueError, NotImplementedError):
        return []


def _toml(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in cast("list[object]", value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
