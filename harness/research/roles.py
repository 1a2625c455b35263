"""The three roles of an optimizer's run as the summary tells them apart: which model each had, and what it took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.model.base import JUDGE, OPTIMIZER, TASK
from harness.model.route import DEFAULT
from harness.optimizer.base import Role
from harness.optimizer.registry import optimizer_names
from harness.records import Json

# whose account a role's calls are on in the journal
ACCOUNTS = {Role.PROPOSES: OPTIMIZER, Role.EVALUATES: JUDGE, Role.SERVES: TASK}


def told_apart(bodies: Mapping[str, Any], spent: Mapping[str, Mapping[str, Json]]) -> dict[str, Json]:
    """{"roles": {role: {"model", "requests", ...}}} of an optimizer's run that called models; else nothing."""
    agent: Mapping[str, Any] = bodies["run"]["policy"]["agent"] if "run" in bodies else {"name": "", "config": {}}
    if not spent or not _optimizes(str(agent["name"])):
        return {}
    roles: dict[str, Json] = {}
    for role, account in ACCOUNTS.items():
        if account in spent:
            roles[role.value] = {"model": model_of(role, agent["config"]), **spent[account]}
    return {"roles": roles}


def given(name: str, config: Mapping[str, Any]) -> dict[str, str]:
    """The policy's model that callers of a role get whatever they ask for: the program's, where `serves` says one."""
    serves = str(config.get("serves") or "")
    return {ACCOUNTS[Role.SERVES]: serves} if serves and _optimizes(name) else {}


def _optimizes(name: str) -> bool:
    return name in optimizer_names() or name.startswith("optimizer:")


def model_of(role: Role, config: Mapping[str, Any]) -> str:
    """The policy's name of a role's model; two names where critiques and edits have one each."""
    proposes = str(config.get("proposes") or DEFAULT)
    if role is Role.EVALUATES:
        return str(config.get("evaluates") or config.get("evaluator_model") or proposes)
    if role is Role.SERVES:
        return str(config.get("serves") or DEFAULT)
    split = [str(config.get(key) or proposes) for key in ("gradient_model", "editor_model")]
    return " and ".join(dict.fromkeys(split))
