"""Take every decision of a run again, offline, from what it recorded: rollouts, model replies, and nothing else.

Proposals are made anew by agents that are functions of what they are asked (their model's replies come from the
journal); those of agents that worked in a box are taken as recorded. The first decision that differs is named.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import anyio.to_thread

from harness.agent.registry import make_agent
from harness.archive.base import LedgerEntry, StoredProposal
from harness.archive.ledger import canonical, verify_chain
from harness.archive.sqlite import SqliteArchive
from harness.clock import SystemClock
from harness.errors import IntegrityError
from harness.evaluation.simulation import NoBoxes, SimulatedEvaluation
from harness.evaluation.tasks import TasksEvaluation
from harness.events import Event
from harness.model.gateway import open_gateway
from harness.model.server import Server
from harness.optimizer.registry import is_optimizer
from harness.policy.schema import Policy
from harness.records import Json, ModelCall, Outcome, RolloutKey, Spend, Split
from harness.repo.store import FOLDER_NAME, TreeStore
from harness.research.baseline import measure_root
from harness.research.engine import Engine
from harness.research.opening import assemble, recorded_policy, run_body
from harness.research.raising import ROW
from harness.research.roles import given
from harness.research.run import single
from harness.research.seeds import sown
from harness.research.session import Hold, Session
from harness.research.vault import open_vault
from harness.tree import Tree

_FOR_EVER_S = 1e9


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What agreed: decisions taken again, proposals made again, model replies told again, and whether the vault's
    numbers were computed again too."""

    tickets: int
    proposals: int
    replies: int
    vault: bool
    head: str

    def as_json(self) -> dict[str, Json]:
        """For `strop replay --json`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Record:
    """Everything of a run that a replay reads."""

    rows: Sequence[LedgerEntry]
    proposals: Sequence[StoredProposal]
    rollouts: Sequence[tuple[RolloutKey, int, Outcome | None]]
    calls: Sequence[ModelCall]


class _Recorded:
    """An evaluation that runs nothing, over the tasks of the one that did."""

    def __init__(self, ran: object) -> None:
        self._ran = ran

    def tasks(self, split: Split) -> list[str]:
        """The names of a split's tasks; none for a split that is run whole."""
        return self._ran.tasks(split) if isinstance(self._ran, TasksEvaluation | SimulatedEvaluation) else []

    async def rollout(self, tree: Tree, split: Split, seed: int) -> NoReturn:
        raise IntegrityError(f"a rollout of {split}", expected="a recorded outcome", found="none")

    async def task(self, tree: Tree, split: Split, example: str, seed: int) -> NoReturn:
        raise IntegrityError(f"a rollout of {split}/{example}", expected="a recorded outcome", found="none")


async def replay(folder: Path) -> ReplayReport:
    """Take the decisions of the run in `folder` again. Raises IntegrityError naming the first that differs."""
    record = await _read(folder)
    verify_chain(record.rows)
    tickets = [row for row in record.rows if row.kind == "ticket"]
    async with AsyncExitStack() as stack:
        temporary = await anyio.to_thread.run_sync(lambda: tempfile.TemporaryDirectory(prefix="strop-replay-"))
        stack.callback(temporary.cleanup)
        archive = await SqliteArchive.create(Path(temporary.name) / folder.name)
        stack.push_async_callback(archive.aclose)
        store = TreeStore(archive.folder / FOLDER_NAME)
        await store.create()
        hold = Hold(archive.folder, archive, store, SystemClock())
        policy = recorded_policy(record.rows)
        again = _agent_is_a_function(policy)
        await _lay(record, hold, TreeStore(folder / FOLDER_NAME), proposals=not again)
        models = await stack.enter_async_context(_models(record, policy, archive)) if policy.models else None
        events: list[Event] = []
        session = await assemble(hold, NoBoxes(), events.append, models)
        session.rollouts.evaluation = _Recorded(session.rollouts.evaluation)
        await _take(session, record, len(tickets))
        await _compare(record, await archive.ledger())
        made = await archive.proposals()
    return ReplayReport(
        tickets=len(tickets),
        proposals=len(made) if again else 0,
        replies=0 if models is None else models.gateway.replayed,
        vault=any(row.kind == "vault" for row in record.rows),
        head=record.rows[-1].hash,
    )


async def _read(folder: Path) -> _Record:
    archive = await SqliteArchive.view(folder)
    try:
        return _Record(
            await archive.ledger(),
            await archive.proposals(),
            await archive.rollouts(),
            await archive.journal().calls(),
        )
    finally:
        await archive.aclose()


def _agent_is_a_function(policy: Policy) -> bool:
    """An optimizer is none: what it asks for depends on what was left of the budget when it asked."""
    if is_optimizer(policy.agent.name):
        return False
    config: Any = policy.agent.config
    return not getattr(make_agent(policy.agent.name, config), "boxed", False)


async def _lay(record: _Record, hold: Hold, original: TreeStore, *, proposals: bool) -> None:
    """A run's beginning and its measurements, without a single decision."""
    await original.view()
    body = run_body(record.rows)
    for tree_id in {body["root_tree"], *body["pinned"].values(), *(one.tree for one in sown(body))}:
        await hold.store.write(await original.read(tree_id))
    await hold.append("run", body)
    for row in record.rows:
        if row.kind == ROW:  # what the budget came to is known from the start: no ticket was refused that was decided
            await hold.append(ROW, row.body)
    for key, seed, outcome in record.rollouts:
        if outcome is not None:
            await hold.archive.begin_rollout(key, seed)
            await hold.archive.finish_rollout(key, outcome)
    committed = {row.ticket for row in record.rows if row.kind == "ticket"}
    for proposal in record.proposals if proposals else ():
        if proposal.ticket in committed:
            if proposal.tree is not None:
                await hold.store.write(await original.read(proposal.tree))
            await hold.archive.store_proposal(proposal)


@asynccontextmanager
async def _models(record: _Record, policy: Policy, archive: SqliteArchive) -> AsyncGenerator[Server]:
    """A gateway that knows the run's replies and asks nobody."""
    journal = archive.journal()
    for call in record.calls:
        if call.reply is not None:
            settled = replace(call, held=Spend())
            await journal.begin_call(settled, b"")
            await journal.finish_call(settled)
    async with open_gateway(policy.models, policy.budget, journal, recorded_only=True) as gateway:
        gateway.given.update(given(policy.agent.name, policy.agent.config))
        yield Server(gateway)


async def _take(session: Session, record: _Record, tickets: int) -> None:
    """Root, tickets and vault, as far as the run went."""
    if not any(row.kind == "root" for row in record.rows):
        return
    endless = session.policy.budget.model_copy(update={"steps": max(1, tickets), "wall_s": _FOR_EVER_S})
    session.policy = session.policy.model_copy(update={"budget": endless})
    await measure_root(session, await session.store.write(session.subject.root))
    try:
        if tickets:
            await Engine(session, 0.0, session.hold.clock.monotonic()).search()
    except BaseExceptionGroup as errors:
        raise single(errors) from None
    if any(row.kind == "vault" and row.body and row.body.get("root") for row in record.rows):
        await open_vault(session)


async def _compare(record: _Record, taken: Sequence[LedgerEntry]) -> None:
    """Each kind of row in its order; the stop rule is the run's own business with clocks and stop files."""
    for kind in ("run", "root", "ticket", "vault"):
        before = [row.body for row in record.rows if row.kind == kind]
        after = [row.body for row in taken if row.kind == kind]
        if kind == "vault" and not after:
            continue
        for number, expected in enumerate(before):
            found = after[number] if number < len(after) else None
            if found is None or canonical(expected) != canonical(found):
                name = f"{kind} {expected.get('ticket', '')}".strip() if expected else kind
                raise IntegrityError(
                    f"replay: {name}", expected=_differs(expected, found), found=_differs(found, expected)
                )


def _differs(one: Any, other: Any) -> str:  # noqa: ANN401 - ledger bodies
    if one is None or other is None:
        return "nothing" if one is None else "a row"
    keys = [key for key in {**one, **other} if canonical(one.get(key)) != canonical(other.get(key))]
    return ", ".join(f"{key} = {canonical(one.get(key))[:160]}" for key in sorted(keys)[:2])
