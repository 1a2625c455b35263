"""Put a session together: a new run from a subject's folder, or an interrupted one from what it recorded."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio.to_thread

from harness.agent.bench import Bench, Equipped
from harness.archive.base import LedgerEntry
from harness.box.base import Boxes, BoxSpec, Command, Mount
from harness.box.choose import choose
from harness.box.gpus import ALL
from harness.box.pool import Pool
from harness.box.relay import Link
from harness.errors import InfraError, InputError, IntegrityError, StropError
from harness.evaluation.choose import evaluation_of
from harness.evaluation.examples import ExampleEvaluation
from harness.evaluation.formats.pinning import pin_tasks
from harness.evaluation.simulation import LABEL, NoBoxes
from harness.evaluation.subject import SplitData, Subject, pin
from harness.events import RolloutFinished
from harness.model.server import Server
from harness.policy.load import SUBJECT_FILE, load_subject
from harness.policy.schema import Policy, SubjectFile
from harness.records import Json, Outcome, RolloutKey, Split
from harness.repo.door import Refusal, admit, scan_folder
from harness.repo.export import origin
from harness.repo.store import TreeStore
from harness.repo.uncommitted import uncommitted
from harness.research import mounts as mounting
from harness.research.attached import AttachedBoxes, caller_of, current
from harness.research.baseline import least_rollouts
from harness.research.cross_check import fold
from harness.research.models import Tape, check_models
from harness.research.optimize.agent import OptimizerAgent
from harness.research.optimize.opening import check_subject, make_proposer
from harness.research.raising import in_force
from harness.research.rollouts import Rollouts
from harness.research.runs import owner_of
from harness.research.seeds import Sowing, sown
from harness.research.session import Emit, Hold, Session
from harness.research.watching import check_telemetry
from harness.tree import Tree
from harness.version import VERSION

_CANARY_S = 20.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a new run is about to do; made before anything is written."""

    folder: Path
    subject: Subject
    policy: Policy
    seed: int
    sowing: Sowing | None = None
    manifest: Tree | None = None


async def plan(
    folder: Path,
    *,
    seed: int | None,
    workers: int | None,
    use: str | None,
    overrides: Mapping[str, object],
    sowing: Sowing | None = None,
    tape: Tape | None = None,
) -> Plan:
    """Read and pin the subject at `folder`. Raises InputError; writes nothing."""
    settings = dict(overrides)
    if workers is not None:
        settings["schedule.workers"] = workers
    loaded = load_subject(folder, use=use, overrides=settings)
    whole = await anyio.to_thread.run_sync(_read_folder, folder, loaded.file.subject.ignore)
    cut = pin_tasks if loaded.file.eval.mode == "tasks" else pin
    subject = await anyio.to_thread.run_sync(cut, loaded.file, whole, folder / SUBJECT_FILE)
    agent = make_proposer(loaded.policy.agent.name, cast("Mapping[str, Json]", loaded.policy.agent.config))
    check_models(agent, loaded.policy, loaded.file.subject, tape)
    await anyio.to_thread.run_sync(check_telemetry, loaded.policy)
    await anyio.to_thread.run_sync(check_subject, agent, subject, loaded.policy)
    _check_control(agent, loaded.policy)
    _check_sowing(agent, loaded.policy, sowing)
    needed = least_rollouts(loaded.policy, subject.splits)
    if loaded.policy.budget.rollouts < needed:
        raise InputError(
            f"{loaded.policy.budget.rollouts} do not cover root, holdout and vault",
            key="budget.rollouts",
            mend=f"give at least {needed}, and more for tickets",
        )
    given = await anyio.to_thread.run_sync(mounting.folders, loaded.policy, folder)
    manifest = await mounting.manifest_of(given) if given else None
    return Plan(folder, subject, loaded.policy, 0 if seed is None else seed, sowing, manifest)


def _check_control(agent: object, policy: Policy) -> None:
    """A control that takes nothing away would be compared as if it had. Raises InputError."""
    control = policy.archive.control
    if control != "none" and policy.archive.mode == "incumbent":
        mend = 'give archive.mode = "keep_all", or leave the control out'
        raise InputError(f"{control!r} needs an archive of parents", key="archive.control", mend=mend)
    if control == "fixed_agent" and not getattr(agent, "edits_itself", False):
        mend = "it is for agent.name = 'self_edit'; others edit with the same code anyway"
        raise InputError(f"{policy.agent.name!r} never edits itself", key="archive.control", mend=mend)


def _check_sowing(agent: object, policy: Policy, sowing: Sowing | None) -> None:
    if sowing is None:
        return
    if isinstance(agent, OptimizerAgent):
        mend = "take its winner home with `strop export` and start from that"
        raise InputError(f"{policy.agent.name!r} has steps of its own", key="--from", mend=mend)
    if len(sowing.seeds) >= policy.budget.steps:
        raise InputError(
            f"{policy.budget.steps} steps do not cover {sowing.run}: each of its {len(sowing.seeds)} variants takes "
            "one step, and something new another",
            key="budget.steps",
            mend=f"give {len(sowing.seeds) + 1} steps or more, or take only the best of them: --from-best N",
        )


async def begin(plan: Plan, hold: Hold) -> None:
    """Write the trees and the `run` entry that everything later is held against."""
    subject, store = plan.subject, hold.store
    trees = subject.pinned() | ({} if plan.manifest is None else {mounting.NAME: plan.manifest})
    pinned = {name: await store.write(tree) for name, tree in trees.items()}
    root = await store.write(subject.root)
    await store.keep("root", root)
    for name, tree_id in pinned.items():
        await store.keep(f"pinned/{name}", tree_id)
    if plan.sowing is not None:
        sown_trees = {f"from/{number}": one.tree for number, one in enumerate(plan.sowing.seeds, start=1)}
        await store.fill(plan.sowing.objects, sown_trees)
    digests = {name: tree.digest for name, tree in trees.items()}
    body: dict[str, Json] = {
        "subject": subject.file.model_dump(mode="json"),
        "policy": plan.policy.model_dump(mode="json"),
        "seed": plan.seed,
        "workers": plan.policy.schedule.workers,
        "root_tree": root,
        "pinned": {**pinned},
        "digests": {**digests, "root": subject.root.digest},
        "locks": cast("list[Json]", subject.locks()),
        "version": VERSION,
        **({} if plan.sowing is None else {"from": plan.sowing.as_json()}),
    }
    came_from = await anyio.to_thread.run_sync(origin, plan.folder)
    seen: dict[str, Json] = {"subject_folder": str(await anyio.to_thread.run_sync(plan.folder.resolve))}
    if plan.manifest is not None:
        seen[mounting.NAME] = {at: str(found) for at, found in mounting.folders(plan.policy, plan.folder).items()}
    if came_from is not None:
        seen["subject_commit"] = came_from.commit
    ahead = await anyio.to_thread.run_sync(lambda: uncommitted(plan.folder, own=(SUBJECT_FILE,)))
    if ahead is not None and (ahead.changed or ahead.untracked):
        seen["uncommitted"] = ahead.as_json()
    await hold.append("run", body, seen)


async def assemble(hold: Hold, boxes: Boxes, emit: Emit, models: Server | None = None) -> Session:
    """A session over a run that has its `run` entry, with standing as of its last committed ticket.

    Raises IntegrityError when the ledger or a pinned tree is not what it was.
    """
    standing = hold.standing or await hold.archive.sound_fold(fold)
    rows = await hold.archive.frame()
    body = run_body(rows)
    subject, policy = await _pinned(body, hold.store), recorded_policy(rows)
    spec = spec_of(hold, policy, mounting.mounts(rows[0].obs))
    agent = make_proposer(policy.agent.name, cast("Mapping[str, Json]", policy.agent.config))
    if isinstance(agent, Equipped):
        fixed = subject.root if policy.archive.control == "fixed_agent" else None
        agent.equip(Bench(boxes, spec, models, subject.file, fixed))
    rollouts = Rollouts(
        archive=hold.archive,
        evaluation=evaluation_of(subject, _attached(boxes, subject, models), spec, _link(models)),
        seed=body["seed"],
        slots=anyio.CapacityLimiter(policy.schedule.workers),
        canary=lambda: _canary(boxes, spec),
        link=None if models is None else lambda key: models.link(caller_of(key)),
        veil="" if subject.file.eval.world else subject.veil(),
        finished=lambda key, outcome: emit(RolloutFinished(key, _sealed(key, outcome))),
        models=None if models is None else models.gateway,
    )
    return Session(
        hold=hold,
        seed=body["seed"],
        subject=subject,
        policy=policy,
        agent=agent,
        rollouts=rollouts,
        standing=standing,
        emit=emit,
        isolation=isolation(boxes),
        spec=spec,
        on_examples=lambda cut: ExampleEvaluation(cut, boxes, spec),
        models=models,
        seeds=sown(body),
    )


def spec_of(hold: Hold, policy: Policy, mounts: tuple[Mount, ...]) -> BoxSpec:
    """What every box of a run is."""
    box = policy.box
    gpus = (ALL,) if box.gpus == ALL else box.gpus
    return BoxSpec(owner_of(hold.folder), box.limits, mounts, warm=box.preload if box.warm else None, gpus=gpus)


def _link(models: Server | None) -> Callable[[], Link] | None:
    return None if models is None else lambda: models.link(current())


def _attached(boxes: Boxes, subject: Subject, models: Server | None) -> Boxes:
    """Where the eval runs with the candidate, its one box has the gateway; the other kinds offer it themselves."""
    whole = subject.file.eval.mode in {"inline", "pytest"}
    return AttachedBoxes(boxes, models) if models is not None and whole else boxes


def isolation(boxes: Boxes) -> str:
    if isinstance(boxes, NoBoxes):
        return LABEL
    return boxes.name if boxes.isolated else f"{boxes.name} (no isolation)"


def boxes_for(mode: str, policy: Policy) -> Boxes:
    """The back end of a run, not yet prepared; a simulated one has none. Raises BoxUnavailableError."""
    return NoBoxes() if mode == "simulation" else choose(policy.box.backend, policy.box.image)


def recorded_boxes(rows: Sequence[LedgerEntry]) -> Boxes:
    """The back end that a run's own record asks for."""
    return boxes_for(run_body(rows)["subject"]["eval"]["mode"], recorded_policy(rows))


@asynccontextmanager
async def pooled(boxes: Boxes) -> AsyncGenerator[Boxes]:
    """The same boxes, ready before they are asked for."""
    if isinstance(boxes, NoBoxes):
        yield boxes
        return
    async with Pool(boxes) as pool:
        yield pool


def run_body(rows: Sequence[LedgerEntry]) -> Mapping[str, Any]:
    """The body of the `run` entry. Raises InputError for a run that died before it was written."""
    if not rows or rows[0].kind != "run" or rows[0].body is None:
        raise InputError("the run stopped before it was written down", mend="start it anew")
    return rows[0].body


def recorded_policy(rows: Sequence[LedgerEntry]) -> Policy:
    """The policy the run started with, its budget as it was raised since."""
    return Policy.model_validate({**run_body(rows)["policy"], "budget": in_force(rows)})


async def _pinned(body: Mapping[str, Any], store: TreeStore) -> Subject:
    trees = {name: await store.read(tree_id) for name, tree_id in body["pinned"].items()}
    root = await store.read(body["root_tree"])
    for name, tree in {**trees, "root": root}.items():
        if tree.digest != body["digests"][name]:
            raise IntegrityError(f"pinned {name}", expected=body["digests"][name], found=tree.digest)
    splits = {
        split: SplitData(trees[f"{split}.inputs"], trees[f"{split}.labels"])
        for split in Split
        if f"{split}.inputs" in trees
    }
    file = SubjectFile.model_validate(body["subject"])
    return Subject(file, root, trees["scorer"], splits)


async def _canary(boxes: Boxes, spec: BoxSpec) -> None:
    """Raises InfraError unless a plain command runs in a fresh box; a run that opens none has none that could fail."""
    if isinstance(boxes, NoBoxes):
        return
    async with boxes.open(spec) as box:
        try:
            done = await box.exec(Command(("python", "-c", "print(1)"), _CANARY_S))
        except StropError as error:
            raise InfraError(f"boxes do not work here any more: {error.message}") from error
    if done.exit_code != 0:
        raise InfraError(f"boxes do not work here any more: a plain python exits with {done.exit_code}")


def _sealed(key: RolloutKey, outcome: Outcome) -> Outcome:
    """What an event may say: scores of holdout and vault stay in the archive."""
    if key.split is Split.VISIBLE:
        return outcome
    return Outcome(outcome.status, wall_s=outcome.wall_s, cpu_s=outcome.cpu_s)


def _read_folder(folder: Path, ignore: Sequence[str]) -> Tree:
    found = admit(scan_folder(folder, ignore=ignore))
    if isinstance(found, Refusal):
        raise InputError(
            "; ".join(str(fault) for fault in found.violations[:3]),
            file=folder,
            mend="a subject holds regular files only; list what does not belong to it under subject.ignore",
        )
    return found
