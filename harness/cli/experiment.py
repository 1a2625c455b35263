"""Experiment files: one TOML or YAML file that says what a run overrides, in the policy's words or an optimizer's.

Keys that are the policy's own tables (budget, gate, models, ...) override them; `agent` or `optimizer` names the agent;
everything else is a setting of that agent, so that a flat file with score_threshold, beam_width and the like works.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from harness.errors import InputError, MissingEnvironmentError

_NAMES = ("agent", "optimizer")


def read_experiment(path: Path) -> dict[str, object]:
    """The overrides in `path`, by dotted policy key. Raises InputError, and for YAML MissingEnvironmentError."""
    from harness.policy.schema import Policy

    found: dict[str, object] = {}
    table = _read(path)
    agent: Any = table.get("agent")
    if "optimizer" in table and (isinstance(agent, str) or (isinstance(agent, Mapping) and "name" in agent)):
        raise InputError("both `agent` and `optimizer` are given", file=path, mend="they name the same: keep one")
    for key, value in table.items():
        if key in _NAMES and isinstance(value, str):
            found["agent.name"] = value
        elif key == "agent" and isinstance(value, Mapping):
            found |= _flat("agent", cast("Mapping[str, Any]", value))
        elif key in Policy.model_fields and isinstance(value, Mapping):
            found |= _flat(key, cast("Mapping[str, Any]", value))
        else:
            found[f"agent.config.{key}"] = value
    return found


def _flat(head: str, table: Mapping[str, Any]) -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, Mapping) and f"{head}.{key}" != "agent.config":
            flat |= _flat(f"{head}.{key}", cast("Mapping[str, Any]", value))
        elif isinstance(value, Mapping):
            flat |= {f"agent.config.{name}": one for name, one in cast("Mapping[str, Any]", value).items()}
        else:
            flat[f"{head}.{key}"] = value
    return flat


def _read(path: Path) -> Mapping[str, Any]:
    from harness.policy.load import read_toml

    if path.suffix == ".toml":
        return read_toml(path)
    if path.suffix not in (".yaml", ".yml"):
        raise InputError("is neither .toml nor .yaml", file=path, mend="name an experiment file of one of them")
    try:
        import yaml  # pyright: ignore[reportMissingModuleSource]
    except ImportError as error:
        raise MissingEnvironmentError(
            "YAML files", reason="need PyYAML", mend="pip install 'strop[optimizers]', or write it as TOML"
        ) from error
    try:
        text = path.read_text("utf-8")
        value: Any = yaml.safe_load(text)
        twice = _twice(cast("Any", yaml).compose(text, Loader=yaml.SafeLoader))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", file=path, mend="check the path") from error
    except yaml.YAMLError as error:
        raise InputError(f"not valid YAML: {error}", file=path, mend="fix the place named") from error
    if twice:
        raise InputError("stands twice", file=path, key=twice, mend="keep one: the last would win unseen")
    if not isinstance(value, dict):
        raise InputError("holds no table of settings", file=path, mend="write `key: value` lines")
    return cast("Mapping[str, Any]", value)


def _twice(node: Any) -> str:  # noqa: ANN401 - PyYAML's nodes have no types
    """The first key of a YAML table, or of one in it, that stands there twice; which YAML itself takes in silence."""
    if getattr(node, "id", "") != "mapping":
        return ""
    keys = [str(key.value) for key, _ in node.value]
    found = next((key for at, key in enumerate(keys) if key in keys[:at]), "")
    return found or next((inner for _, value in node.value if (inner := _twice(value))), "")
