"""A run as an async context: its events while it goes, everything cleaned up when the block is left."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from harness.archive.lock import RunLock, holder
from harness.archive.sqlite import SqliteArchive
from harness.box.base import Boxes
from harness.clock import Clock, SystemClock
from harness.errors import BudgetError, InputError, StorageError, StropError
from harness.events import Event, Notice, RunFinished, RunStarted
from harness.failpoint import failpoint
from harness.model.base import TASK
from harness.model.preflight import preflight
from harness.model.server import Server
from harness.records import Json, RunState
from harness.repo.store import FOLDER_NAME, TreeStore
from harness.research.account import sealed_wall_s, state_of
from harness.research.baseline import measure_root
from harness.research.cross_check import fold
from harness.research.engine import Engine
from harness.research.models import Tape, models_of
from harness.research.mounts import check_mounts, folders
from harness.research.opening import (
    assemble,
    begin,
    boxes_for,
    isolation,
    plan,
    pooled,
    recorded_boxes,
    recorded_policy,
    run_body,
)
from harness.research.optimize.opening import too_few_when_noisy
from harness.research.outage import tell_waiting
from harness.research.proving import prove
from harness.research.raising import ROW, raise_of
from harness.research.runs import new_folder, owner_of, run_folders, runs_folder
from harness.research.session import Hold, Session
from harness.research.share import Share
from harness.research.sowing import gather
from harness.research.stop import Stop
from harness.research.summary import summarize
from harness.research.vault import leave_vault_shut, open_vault
from harness.research.verify import settle_anchor
from harness.research.wall import beating
from harness.research.watching import Watch, watching
from harness.telemetry.tracker import LogFunction, Tracker

ABORTED = "aborted; `strop resume` goes on"


@dataclass(frozen=True, slots=True)
class Beside:
    """What a session does beside its work, and no decision rests on."""

    trackers: Sequence[Tracker | LogFunction] = ()
    tape: Tape = field(default_factory=Tape)


@dataclass
class Run:
    """A live run. Iterate `events` to its end; `summary` is there afterwards.

    Leaving the context before the end interrupts the run; it can be resumed.
    """

    run_id: str
    folder: Path
    events: MemoryObjectReceiveStream[Event]
    summary: Mapping[str, Json] = field(default_factory=dict[str, Json])
    beside: Beside = field(default_factory=Beside)
    _engine: Engine | None = None
    _drain: bool = False

    def attach(self, engine: Engine) -> None:
        """Take the engine that is searching now."""
        self._engine = engine
        engine.draining = self._drain

    def drain(self) -> None:
        """Finish the tickets in flight and start no more; the run can be resumed."""
        self._drain = True
        if self._engine is not None:
            self._engine.draining = True


@asynccontextmanager
async def open_run(
    subject: Path | str,
    *,
    seed: int | None = None,
    workers: int | None = None,
    policy: str | None = None,
    overrides: Mapping[str, object] | None = None,
    runs: Path | None = None,
    run_id: str | None = None,
    start: Path | None = None,
    start_best: int | None = None,
    clock: Clock | None = None,
    trackers: Sequence[Tracker | LogFunction] = (),
    record: Path | None = None,
    replay: Path | None = None,
) -> AsyncGenerator[Run]:
    """A new run on the subject folder. `overrides` are dotted policy keys, as in {"budget.steps": 20}.

    `start` is an earlier run's folder or an exported archive whose variants, or the `start_best` best of them, are
    proposed first.
    `trackers` are given the run's numbers as it goes: objects with log(numbers, step), or such functions.
    `record` is a file that gets every completion of the run's models at the end; with `replay` they come from such a
    file, nobody is asked, and a call that is not in it raises CassetteError.

    Raises InputError before anything is written, ModelError (before that too, where nobody listens or the key is
    refused), BoxUnavailableError, StorageError.
    """
    clock = clock or SystemClock()
    tape = Tape(record, replay)
    await tape.loaded()
    sowing = await gather(start, start_best) if start is not None else None
    made = await plan(
        Path(subject), seed=seed, workers=workers, use=policy, overrides=overrides or {}, sowing=sowing, tape=tape
    )
    boxes = boxes_for(made.subject.file.eval.mode, made.policy)
    await boxes.prepare()
    await prove(made.policy, boxes, folders(made.policy, made.folder))
    if tape.replay is None:
        await preflight(made.policy.models)
    began = clock.monotonic()
    folder = new_folder(runs_folder(runs), made.subject.file.subject.name, clock.now(), run_id)
    async with AsyncExitStack() as stack:
        stack.enter_context(RunLock(folder))
        archive = await SqliteArchive.create(folder)
        stack.push_async_callback(archive.aclose)
        store = TreeStore(folder / FOLDER_NAME)
        await store.create()
        hold = Hold(folder, archive, store, clock, began=began)
        await begin(made, hold)
        yield await stack.enter_async_context(_live(hold, Beside(trackers, tape), resumed=False))


@asynccontextmanager
async def resume_run(
    folder: Path | str,
    *,
    overrides: Mapping[str, object] | None = None,
    clock: Clock | None = None,
    trackers: Sequence[Tracker | LogFunction] = (),
    record: Path | None = None,
    replay: Path | None = None,
) -> AsyncGenerator[Run]:
    """Go on with an interrupted run, under the policy and the subject it started with; the rest is as in `open_run`.

    `overrides` may raise budgets, as in {"budget.requests": 4000}, and nothing else; the ledger tells it.
    Raises InputError when it is finished, RunBusyError when another process owns it, IntegrityError.
    """
    folder = await anyio.to_thread.run_sync(Path(folder).resolve)
    clock = clock or SystemClock()
    began = clock.monotonic()
    tape = Tape(record, replay)
    await tape.loaded()
    async with AsyncExitStack() as stack:
        stack.enter_context(RunLock(folder))
        archive = await SqliteArchive.open(folder)
        stack.push_async_callback(archive.aclose)
        rows = await archive.frame()
        state, reason = state_of(rows, live=False)
        if state is RunState.FINISHED:
            raise InputError(f"is finished: {reason}", file=folder, mend="see `strop report`, or start a new run")
        store = TreeStore(folder / FOLDER_NAME)
        await store.open()
        standing = await archive.sound_fold(fold)
        await settle_anchor(archive, store, count=(await archive.head_at())[0])
        hold = Hold(folder, archive, store, clock, standing, began)
        if tape.replay is None and await _asks_models(hold):
            await preflight(recorded_policy(rows).models)
        await _raise(hold, overrides or {})
        yield await stack.enter_async_context(_live(hold, Beside(trackers, tape), resumed=True))


async def _asks_models(hold: Hold) -> bool:
    """Whether what is left of the run may ask its models: its search does, and its vault where the eval does."""
    if await _recorded(hold.archive, "stop") is None:
        return True
    return any(role.partition("/")[0] == TASK for _, role, _ in await hold.archive.journal().spent())


async def _raise(hold: Hold, overrides: Mapping[str, object]) -> None:
    stop = await _recorded(hold.archive, "stop") or {}
    policy = recorded_policy(await hold.archive.frame())
    if body := raise_of(policy, overrides, stopped=str(stop.get("reason", ""))):
        await hold.append(ROW, body)


@asynccontextmanager
async def _live(hold: Hold, beside: Beside, *, resumed: bool) -> AsyncGenerator[Run]:
    send, receive = anyio.create_memory_object_stream[Event](math.inf)
    run = Run(hold.folder.name, hold.folder, receive, beside=beside)
    failure: list[BaseException] = []
    with send, receive:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_drive, run, hold, resumed, send, failure)
                try:
                    yield run
                finally:
                    group.cancel_scope.cancel()
        except BaseExceptionGroup as errors:
            raise single(errors) from None
        if failure:
            raise failure[0]


async def _drive(
    run: Run, hold: Hold, resumed: bool, send: MemoryObjectSendStream[Event], failure: list[BaseException]
) -> None:
    """The whole of one session; its own errors are handed over instead of raised through the group."""
    with send:
        try:
            policy = recorded_policy(await hold.archive.frame())
            async with watching(run.run_id, policy, run.beside.trackers, send.send_nowait) as watch:
                run.summary = await _session(run, hold, resumed, watch)
                watch.show(RunFinished(run.summary))
        except Exception as error:
            failure.append(single(error))
            return
        send.send_nowait(RunFinished(run.summary))


async def _session(run: Run, hold: Hold, resumed: bool, watch: Watch) -> Mapping[str, Json]:
    archive, clock = hold.archive, hold.clock
    rows = await archive.frame()
    boxes = recorded_boxes(rows)
    earlier = max(await archive.wall_s(), sealed_wall_s(rows))
    started = hold.began
    await _note(hold, "resume" if resumed else "start", isolation=isolation(boxes))
    reason = ABORTED
    try:
        async with beating(hold), _models(hold, run.beside.tape) as models, pooled(boxes) as ready:
            session = await _open(hold, ready, watch, models)
            watch.tell(_started(session, resumed))
            async with anyio.create_task_group() as group:
                if models is not None:
                    group.start_soon(models.gateway.broken)
                    group.start_soon(tell_waiting, models.gateway, archive, clock, watch.tell)
                engine = await _prepare(session, earlier, started)
                run.attach(engine)
                stop = await _search(engine)
                reason = f"{stop.reason}: {stop.detail}"
                if stop.final:
                    await _close(engine, stop)
                group.cancel_scope.cancel()
    except Exception as error:
        reason = _why(single(error))
        await _still_there(hold, error)
        raise
    finally:
        with anyio.CancelScope(shield=True):
            await _end(hold, reason, clock.monotonic() - started, earlier)
    return await summarize(run.folder)


@asynccontextmanager
async def _models(hold: Hold, tape: Tape) -> AsyncGenerator[Server | None]:
    rows = await hold.archive.frame()
    raised, seed = any(row.kind == ROW for row in rows), run_body(rows)["seed"]
    async with models_of(hold.archive, recorded_policy(rows), seed, tape, raised=raised) as server:
        yield server


async def _open(hold: Hold, boxes: Boxes, watch: Watch, models: Server | None) -> Session:
    await boxes.prepare()
    runs = await anyio.to_thread.run_sync(run_folders, hold.folder.parent)
    dead = [owner_of(path) for path in runs if path != hold.folder and holder(path) is None]
    await boxes.reap([owner_of(hold.folder), *dead])  # our own name too: an earlier session of this run may have died
    rows = await hold.archive.frame()
    if len(rows) > 1:  # resumed: what it is to go on with must be what it began with
        await check_mounts(run_body(rows), rows[0].obs, hold.store)
    session = await assemble(hold, boxes, watch.tell, models)
    if watch.watchers:
        session.rollouts.began = watch.rollout
        if models is not None:
            models.gateway.watch = watch.call
    return session


async def _still_there(hold: Hold, error: Exception) -> None:
    """Raises StorageError instead of whatever a vanished run folder made of itself."""
    if not await anyio.to_thread.run_sync(hold.folder.is_dir):
        raise StorageError(hold.folder, reason="the run folder is gone") from error


async def _end(hold: Hold, reason: str, session_s: float, earlier: float) -> None:
    if not await anyio.to_thread.run_sync(hold.folder.is_dir):
        return
    await hold.archive.heartbeat(session_s)
    await _note(hold, "end", reason, wall_s=round(earlier + session_s, 3))


async def _prepare(session: Session, earlier: float, started: float) -> Engine:
    """The engine over a run whose root is measured."""
    models = session.models
    share = None if models is None else await Share.of_run(session, models.gateway)
    if not session.standing.marks:
        if said := too_few_when_noisy(session.agent, session.subject, session.policy):
            session.emit(Notice(said))  # now, before anything is spent on it
        await measure_root(session, await session.store.write(session.subject.root))
    return Engine(session, earlier, started, share)


async def _search(engine: Engine) -> Stop:
    stopped = await _recorded(engine.session.archive, "stop")
    if stopped is not None:
        return Stop(str(stopped["reason"]), str(stopped["detail"]))
    return await engine.search()


async def _close(engine: Engine, stop: Stop) -> None:
    """Record why the search ended and open the vault; each once, however often the end was interrupted."""
    session = engine.session
    if await _recorded(session.archive, "stop") is None:
        await session.hold.append("stop", {"reason": stop.reason, "detail": stop.detail})
    failpoint("stopped")
    if await _recorded(session.archive, "vault") is not None:
        return
    rows = await session.archive.ledger()
    await check_mounts(run_body(rows), rows[0].obs, session.store)
    with anyio.move_on_after(engine.wall_left()) as wall:
        try:
            await open_vault(session)
        except BaseExceptionGroup as errors:
            error = single(errors)
            if isinstance(error, BudgetError):
                error.message = f"the vault is not open yet: {error.message}"
            raise error from None
    if wall.cancelled_caught:
        await leave_vault_shut(session, "the wall time ran out before the vault was open")


async def _recorded(archive: SqliteArchive, kind: str) -> Mapping[str, Json] | None:
    rows = await archive.frame()
    return next((row.body for row in rows if row.kind == kind), None)


def _started(session: Session, resumed: bool) -> RunStarted:
    return RunStarted(
        run_id=session.run_id,
        folder=str(session.hold.folder),
        subject=session.subject.file.subject.name,
        metric=session.subject.file.eval.metric,
        direction=session.subject.file.eval.direction,
        seed=session.seed,
        workers=session.policy.schedule.workers,
        steps=session.policy.budget.steps,
        isolation=session.isolation,
        resumed=resumed,
        roles=session.roles,
    )


async def _note(hold: Hold, event: str, reason: str = "", **more: Json) -> None:
    seen: dict[str, Json] = {"event": event, "host": socket.gethostname(), "pid": os.getpid(), "reason": reason}
    await hold.append("session", None, {**seen, **more})


def _why(error: BaseException) -> str:
    return error.message if isinstance(error, StropError) else f"{type(error).__name__}: {error}"


def single(error: BaseException) -> BaseException:
    """The one error a group stands for: the first of ours in it, else the first of any kind."""
    leaves = _leaves(error)
    return next((leaf for leaf in leaves if isinstance(leaf, StropError)), leaves[0])


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    group = cast("BaseExceptionGroup[BaseException]", error)
    return [leaf for inner in group.exceptions for leaf in _leaves(inner)]
