"""The models of a run: checked before anything is written, served while a session lasts, told in the summary."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from harness.agent.base import Agent
from harness.archive.base import LedgerEntry
from harness.archive.sqlite import SqliteArchive
from harness.errors import InputError
from harness.model.base import TASK
from harness.model.cassette import Cassette, load, write
from harness.model.gateway import open_gateway
from harness.model.pricing import NANO, price_of, spend_json
from harness.model.route import key_of
from harness.model.server import Server, serve
from harness.policy.schema import Policy, SubjectTable
from harness.records import Json, Spend
from harness.research.roles import given
from harness.research.standing import ROOT

NOTHING_MADE = "none"
NO_MODEL = (
    'name one in strop.toml: [policy.models.main] base_url = "http://127.0.0.1:8123/v1" (any OpenAI-compatible '
    'server), and api_key_env = "NAME_OF_A_VARIABLE" where it wants a key'
)


@dataclass(frozen=True, slots=True)
class Tape:
    """Cassettes of a run: `record` is where its completions go at the end, `replay` where they come from instead of
    from models."""

    record: Path | None = None
    replay: Path | None = None

    async def loaded(self) -> Cassette | None:
        """What is to be replayed. Raises InputError for a file that is none, or a place nobody can write to."""
        if self.record is not None and self.replay is not None:
            raise InputError("a replayed run asks nobody: there is nothing to record", mend="give one of the two")
        if self.record is not None and not await anyio.to_thread.run_sync(self.record.parent.is_dir):
            raise InputError("no such folder", file=self.record.parent, mend="make it, or record elsewhere")
        return None if self.replay is None else await anyio.to_thread.run_sync(load, self.replay)

    async def keep(self, archive: SqliteArchive) -> None:
        """Write what the run was told so far, if that is asked for. Raises StorageError."""
        if self.record is not None:
            await anyio.to_thread.run_sync(write, self.record, await archive.journal().calls())


def check_models(agent: Agent, policy: Policy, subject: SubjectTable, tape: Tape | None = None) -> None:
    """Raises InputError for an agent or a subject without the model it needs, a key that is not set, a price that is
    not known.

    A run that replays needs no key.
    """
    if tape is not None and (tape.record or tape.replay) and not policy.models:
        raise InputError("there is nothing to record or replay: the policy names no models", mend=NO_MODEL)
    if getattr(agent, "needs_model", False) and not policy.models:
        raise InputError(f"the {agent.name} agent needs a model", key="policy.models", mend=NO_MODEL)
    check_needed(subject, policy)
    for name, model in policy.models.items():
        if tape is None or tape.replay is None:
            key_of(name, model)
        price_of(name, model, needed=policy.budget.usd is not None)


def check_needed(subject: SubjectTable, policy: Policy) -> None:
    """Raises InputError for a subject that asks a model and has none."""
    if subject.needs_model and not policy.models:
        raise InputError(f"the subject {subject.name!r} needs a model", key="policy.models", mend=NO_MODEL)


@asynccontextmanager
async def models_of(
    archive: SqliteArchive, policy: Policy, seed: int, tape: Tape | None = None, *, raised: bool = False
) -> AsyncGenerator[Server | None]:
    """The run's gateway on loopback, over the run's journal; None for a run without models."""
    tape = tape or Tape()
    cassette = await tape.loaded()
    if not policy.models:
        yield None
        return
    journal = archive.journal(whole=tape.record is not None)
    try:
        async with (
            open_gateway(policy.models, policy.budget, journal, seed=seed, cassette=cassette) as gateway,
            serve(gateway) as server,
        ):
            gateway.raised = raised
            gateway.given.update(given(policy.agent.name, policy.agent.config))
            gateway.width = policy.schedule.workers
            yield server
    finally:
        with anyio.CancelScope(shield=True):
            await tape.keep(archive)


async def model_account(
    archive: SqliteArchive, limits: Mapping[str, Json], rows: Sequence[LedgerEntry]
) -> dict[str, Json]:
    """What model calls took: budget lines as {kind: {used, limit}}, by role, by ticket, and by variant."""
    spent = await archive.journal().spent()
    total = sum(spent.values(), Spend())
    used: dict[str, float] = {
        "requests": total.requests,
        "tokens_in": total.tokens_in,
        "tokens_out": total.tokens_out,
        "usd": round(total.nano_usd / NANO, 9),
    }
    lines: dict[str, Json] = {
        kind: {"used": amount, "limit": limits.get(kind)} for kind, amount in used.items() if amount or kind in limits
    }
    variant_of = _variants(rows)
    sums: dict[str, dict[str, Spend]] = {"roles": {}, "tickets": {}, "variants": {}}
    for (ticket, role, maker), spend in spent.items():
        # every evaluated rollout may have a role of its own, below the kind it is of
        kind = role.partition("/")[0]
        for group, name in (("roles", kind), ("tickets", str(ticket)), ("variants", variant_of(ticket, kind, maker))):
            sums[group][name] = sums[group].get(name, Spend()) + spend
    told: dict[str, Json] = {
        group: {name: spend_json(spend) for name, spend in of.items()} for group, of in sums.items()
    }
    return {"lines": lines, **told}


def _variants(rows: Sequence[LedgerEntry]) -> Callable[[int, str, str], str]:
    """On which variant a call's cost falls: the one it was evaluating, else the one its ticket made; NOTHING_MADE when
    nothing came of the ticket."""
    made, trees = {0: ROOT}, dict[str, str]()
    for row in rows:
        body: Any = row.body or {}
        if row.kind == "run":
            trees[body["root_tree"][:12]] = ROOT
        if row.kind == "ticket" and body["variant"] is not None:
            made[int(body["ticket"])] = body["variant"]["id"]
            trees.setdefault(body["variant"]["tree"][:12], body["variant"]["id"])

    def variant_of(ticket: int, kind: str, maker: str) -> str:
        evaluated = trees.get(maker.partition("/")[0]) if kind == TASK else None
        return evaluated or made.get(ticket, NOTHING_MADE)

    return variant_of
