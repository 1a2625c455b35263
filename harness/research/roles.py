"""The three roles of an optimizer's run told apart: which model each had, what it took, and what it was good for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from harness.archive.sqlite import SqliteArchive
from harness.model.base import JUDGE, OPTIMIZER, TASK
from harness.model.gateway import Gateway
from harness.model.pricing import spend_json
from harness.model.route import DEFAULT
from harness.model.silence import silent
from harness.optimizer.base import Role
from harness.optimizer.registry import is_optimizer
from harness.records import Json, Spend

# whose account a role's calls are on in the journal
ACCOUNTS = {Role.PROPOSES: OPTIMIZER, Role.EVALUATES: JUDGE, Role.SERVES: TASK}
SIMULATED = "simulated"


async def mute_replies(bodies: Mapping[str, Any], archive: SqliteArchive) -> dict[str, int]:
    """Replies to the program of an optimizer's run that were an error or empty; its host counts the other roles'."""
    agent = _agent(bodies)
    return silent(await archive.journal().calls(), TASK) if is_optimizer(str(agent["name"])) else {}


def told_apart(
    bodies: Mapping[str, Any],
    spent: Mapping[str, Mapping[str, Json]],
    heard: Mapping[str, Json],
    mute: Mapping[str, int],
) -> dict[str, Json]:
    """{"roles": {role: {"model", "requests", ..., "replies", "unusable"}}} of an optimizer's run; else nothing."""
    agent = _agent(bodies)
    if not is_optimizer(str(agent["name"])):
        return {}
    world = bodies["run"]["subject"]["eval"].get("world")
    return {"roles": roles_of(models_by_role(agent["config"], simulated=bool(world)), spent, heard, mute)}


def roles_of(
    models: Mapping[str, str],
    spent: Mapping[str, Mapping[str, Json]],
    heard: Mapping[str, Json],
    mute: Mapping[str, int] | None = None,
) -> dict[str, Json]:
    """Each role with its model, what it took and how many of its replies could not be used."""
    nothing = spend_json(Spend())
    roles: dict[str, Json] = {}
    for role, account in ACCOUNTS.items():
        said = cast("Mapping[str, Json]", heard.get(role.value) or {})
        unusable = {**cast("Mapping[str, Json]", said.get("unusable") or {})}
        taken = {**spent.get(account, nothing)}
        if role is Role.SERVES:
            unusable |= mute or {}
        roles[role.value] = {
            "model": models[role.value],
            **taken,
            "replies": max(int(cast("int", said.get("replies") or 0)), int(cast("int", taken["requests"] or 0))),
            "unusable": unusable,
        }
    return roles


def live_roles(models: Mapping[str, str], gateway: Gateway | None, heard: Mapping[str, Json]) -> dict[str, Json]:
    """`roles_of` for a run that goes on: what calls took so far, and what was heard up to the last step."""
    sums: dict[str, Spend] = {}
    for role, spend in (gateway.allowance.by_role if gateway is not None else {}).items():
        kind = role.partition("/")[0]  # every evaluated rollout may have a role of its own
        sums[kind] = sums.get(kind, Spend()) + spend
    return roles_of(models, {kind: spend_json(spend) for kind, spend in sums.items()}, heard)


def models_by_role(config: Mapping[str, Any], *, simulated: bool = False) -> dict[str, str]:
    """The policy's name of each role's model; in a simulated world all three are made up."""
    return {role.value: SIMULATED if simulated else model_of(role, config) for role in Role}


def given(name: str, config: Mapping[str, Any]) -> dict[str, str]:
    """The policy's model that callers of a role get whatever they ask for: the program's, where `serves` says one."""
    serves = str(config.get("serves") or "")
    return {ACCOUNTS[Role.SERVES]: serves} if serves and is_optimizer(name) else {}


def model_of(role: Role, config: Mapping[str, Any]) -> str:
    """The policy's name of a role's model; two names where critiques and edits have one each."""
    proposes = str(config.get("proposes") or DEFAULT)
    if role is Role.EVALUATES:
        return str(config.get("evaluates") or config.get("evaluator_model") or proposes)
    if role is Role.SERVES:
        return str(config.get("serves") or DEFAULT)
    split = [str(config.get(key) or proposes) for key in ("gradient_model", "editor_model")]
    return " and ".join(dict.fromkeys(split))


def _agent(bodies: Mapping[str, Any]) -> Mapping[str, Any]:
    return bodies["run"]["policy"]["agent"] if "run" in bodies else {"name": "", "config": {}}
