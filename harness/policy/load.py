"""Read `strop.toml` and policies strictly: one clear error names file, key and mend; nothing is written."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from harness.errors import InputError
from harness.policy.schema import Policy, SubjectFile
from harness.resources import resource

SUBJECT_FILE = "strop.toml"
MAX_BYTES = 2**20
_PLAIN = {
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "too_short": "is empty: it needs at least {min_length}",
    "string_too_short": "is empty",
    "string_too_long": "has more than {max_length} characters",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text, in quotes",
    "tuple_type": 'must be a list, as in ["a", "b"]',
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "too_long": "has more than {max_length}",
    "string_pattern_mismatch": "has not the form {pattern}",
    "literal_error": "must be one of {expected}",
}
_MEND = {"subject.editable": 'name at least one path, as in editable = ["train.py"]'}
_KIND = re.compile(r"(float|int|str|bool)$|(literal|tuple|constrained|function)[-\[]")
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A subject's own file and the policy that results from it."""

    folder: Path
    file: SubjectFile
    policy: Policy


def load_subject(folder: Path, *, use: str | None = None, overrides: Mapping[str, object] | None = None) -> Loaded:
    """Read `folder/strop.toml`; `use` replaces its policy, dotted `overrides` win over everything.

    Raises InputError.
    """
    path = folder / SUBJECT_FILE
    if not folder.is_dir():
        raise InputError("no such folder", file=folder, mend="give the folder that holds your strop.toml")
    if not path.exists():
        raise InputError("not found", file=path, mend=f"write one with: strop init {folder}")
    file = _validate(SubjectFile, read_toml(path), path)
    own = dict(file.policy)
    named = own.pop("use", "guarded")
    if not isinstance(named, str):
        raise InputError("must be the name or path of a policy", file=path, key="policy.use", mend='use = "guarded"')
    policy_path(use or named, folder, "--policy" if use else path)
    policy = load_policy(use or named, base=folder, overrides=own, source=path, key_prefix="policy.")
    if overrides:
        policy = override(policy, overrides)
    return Loaded(folder, file, policy)


def load_policy(
    name: str, *, base: Path, overrides: Mapping[str, object], source: Path, key_prefix: str = ""
) -> Policy:
    """The policy called `name` (shipped, or a TOML file relative to `base`) with `overrides` merged in."""
    path = policy_path(name, base)
    shipped = _validate(Policy, read_toml(path), path)
    return _validate(Policy, _merge(shipped.model_dump(), overrides), source, key_prefix)


def policy_path(name: str, base: Path, source: Path | str = "") -> Path:
    """Where the policy `name` lives. Raises InputError that lists the shipped ones; `source` is what named it."""
    shipped = resource("policies")
    if name.endswith(".toml"):
        path = base / name
        if path.is_file():
            return path
    elif (shipped / f"{name}.toml").is_file():
        return shipped / f"{name}.toml"
    known = ", ".join(sorted(path.stem for path in shipped.glob("*.toml")))
    key = "" if source == "--policy" else "policy.use"
    mend = f"one of {known}, or a path to a .toml file"
    raise InputError(f"no policy called {name!r}", file=source, key=key, mend=mend)


def override(policy: Policy, dotted: Mapping[str, object]) -> Policy:
    """`policy` with values set by dotted key, as `--set budget.steps=20` does."""
    tree: dict[str, Any] = {}
    for key, value in dotted.items():
        *parents, leaf = key.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = value
    return _validate(Policy, _merge(policy.model_dump(), tree), Path("--set"))


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file. Raises InputError with the line for anything that is not TOML in UTF-8, or is too large."""
    try:
        if path.exists() and not path.is_file():
            raise InputError("is not a file", file=path, mend="put a TOML file there")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise InputError(
                f"is too large: more than {MAX_BYTES // 2**20} MB",
                file=path,
                mend="is it the right file? keep data out of it",
            )
        return tomllib.loads(data.decode("utf-8-sig"))
    except FileNotFoundError as error:
        raise InputError("not found", file=path, mend="check the path") from error
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path, mend="check its permissions") from error
    except RecursionError as error:
        raise InputError("nested too deeply to read", file=path, mend="flatten it") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not valid TOML: {error}", file=path, mend="fix the syntax at the place named") from error


def _merge(base: dict[str, Any], over: Mapping[str, object]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, dict):
            merged[key] = _merge(cast("dict[str, Any]", below), cast("Mapping[str, object]", value))
        else:
            merged[key] = value
    return merged


def _validate(model: type[_Model], values: Mapping[str, Any], path: Path, key_prefix: str = "") -> _Model:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        # a misspelt key is also a missing one: what is there says more than what is not
        errors = sorted(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")
        name = _key(errors[0])
        first = [one for one in errors if _key(one) == name]  # more than one where a value may be of several kinds
        told = [explain(one, key_prefix + name, model) for one in first]
        message, mend = " or ".join(dict.fromkeys(text for text, _ in told)), told[0][1]
        key, more = key_prefix + name, len(errors) - len(first)
        rest = f" (and {more} more)" if more else ""
        raise InputError(message + rest, file=path, key=key, mend=mend) from None


def _key(error: ErrorDetails) -> str:
    """The dotted key, without the kind that pydantic adds where a value may be of several."""
    parts = [str(part) for part in error["loc"]]
    return ".".join(parts[:-1] if _KIND.match(parts[-1]) else parts)


def explain(error: ErrorDetails, key: str, model: type[BaseModel]) -> tuple[str, str]:
    """(what is wrong, what to do) of one of pydantic's errors, in plain words."""
    kind, given = error["type"], error["input"]
    if isinstance(given, float) and math.isnan(given):
        return "is not a number (nan)", "give a number"
    if kind == "extra_forbidden":
        return _unknown(key.rpartition(".")[2], _siblings(model, key))
    if kind == "missing":
        return "missing", f"add `{key.rpartition('.')[2]}`; see `strop init` for a complete file"
    if kind in _PLAIN:
        return _PLAIN[kind].format(**error.get("ctx", {})), _MEND.get(key, "correct the value")
    return error["msg"].removeprefix("Value error, "), "correct the value"


def _unknown(name: str, known: list[str]) -> tuple[str, str]:
    close = difflib.get_close_matches(name, known, n=1)
    meant = f": did you mean {close[0]}?" if close else ""
    return f"unknown key{meant}", f"remove it; keys here: {', '.join(known) or 'none'}"


def _siblings(model: type[BaseModel], key: str) -> list[str]:
    node: type[BaseModel] = model
    for part in key.removeprefix("policy.").split(".")[:-1]:
        field = node.model_fields.get(part)
        below = field.annotation if field else None
        if not (isinstance(below, type) and issubclass(below, BaseModel)):
            break
        node = below
    return sorted(node.model_fields)
