"""The models of a run: checked before anything is written, served while a session lasts, told in the summary."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from harness.agent.base import Agent
from harness.archive.sqlite import SqliteArchive
from harness.errors import InputError
from harness.model.gateway import open_gateway
from harness.model.pricing import NANO, price_of
from harness.model.route import key_of
from harness.model.server import Server, serve
from harness.policy.schema import Policy
from harness.records import Json, Spend

NO_MODEL = (
    'name one in strop.toml: [policy.models.main] base_url = "http://127.0.0.1:8123/v1" (any OpenAI-compatible '
    'server), and api_key_env = "NAME_OF_A_VARIABLE" where it wants a key'
)


def check_models(agent: Agent, policy: Policy) -> None:
    """Raises InputError for an agent without the model it needs, a key that is not set, a price that is not known."""
    if getattr(agent, "needs_model", False) and not policy.models:
        raise InputError(f"the {agent.name} agent needs a model", key="policy.models", mend=NO_MODEL)
    for name, model in policy.models.items():
        key_of(name, model)
        price_of(name, model, needed=policy.budget.usd is not None)


@asynccontextmanager
async def models_of(archive: SqliteArchive, policy: Policy, seed: int) -> AsyncGenerator[Server | None]:
    """The run's gateway on loopback, over the run's journal; None for a run without models."""
    if not policy.models:
        yield None
        return
    async with (
        open_gateway(policy.models, policy.budget, archive.journal(), seed=seed) as gateway,
        serve(gateway) as server,
    ):
        yield server


async def model_account(archive: SqliteArchive, limits: Mapping[str, Json]) -> dict[str, Json]:
    """What model calls took: budget lines as {kind: {used, limit}}, and by role."""
    by_role = await archive.journal().spent()
    total = sum(by_role.values(), Spend())
    used: dict[str, float] = {
        "requests": total.requests,
        "tokens_in": total.tokens_in,
        "tokens_out": total.tokens_out,
        "usd": round(total.nano_usd / NANO, 9),
    }
    lines: dict[str, Json] = {
        kind: {"used": amount, "limit": limits.get(kind)} for kind, amount in used.items() if amount or kind in limits
    }
    kinds: dict[str, Spend] = {}
    for role, spend in by_role.items():
        kind = role.partition("/")[0]  # every evaluated rollout has a role of its own
        kinds[kind] = kinds.get(kind, Spend()) + spend
    roles: dict[str, Json] = {kind: spend_json(spend) for kind, spend in kinds.items()}
    return {"lines": lines, "roles": roles}


def spend_json(spend: Spend) -> dict[str, Json]:
    """A spend for `--json` and the report."""
    return {
        "requests": spend.requests,
        "tokens_in": spend.tokens_in,
        "tokens_out": spend.tokens_out,
        "usd": round(spend.nano_usd / NANO, 9),
        "estimated": spend.estimated,
    }
