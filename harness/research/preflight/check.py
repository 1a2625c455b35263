"""The free pre-flight: is this eval fit to judge a night of candidates? No model is asked and nothing is kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio

from harness.box.base import Boxes
from harness.box.selfcheck import selfcheck
from harness.errors import InputError, StropError
from harness.evaluation.channel import script_of
from harness.evaluation.simulation import NoBoxes
from harness.evaluation.tasks import AT_ONCE
from harness.records import Outcome, RolloutKey, Split
from harness.research.baseline import measure_root
from harness.research.bench import bench
from harness.research.decide import worst_case
from harness.research.engine import CLOSING_S
from harness.research.evidence.statistics import holdout_epsilon
from harness.research.mounts import folders
from harness.research.preflight.anchors import anchor_findings
from harness.research.preflight.emptied import at_end, emptied_findings
from harness.research.preflight.leaks import answers_hinted, answers_in_sight, careless
from harness.research.preflight.neighbours import Likeness, near_duplicates
from harness.research.preflight.power import least_gain, pairs_for
from harness.research.preflight.prices import call_findings, price_findings
from harness.research.preflight.running import running
from harness.research.preflight.tables import ids_of
from harness.research.proving import prove
from harness.research.screening import ticket_worst_case
from harness.research.session import Session
from harness.research.staging import Stages, by_task
from harness.research.standing import ROOT
from harness.research.vault import vault_rollouts, vault_s
from harness.tree import File, Tree

State = Literal["ok", "warning", "failed"]
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what was found, and what to do if it is not well."""

    name: str
    state: State
    detail: str
    mend: str = ""


async def check(
    subject: Path, *, policy: str | None = None, overrides: Mapping[str, object] | None = None
) -> list[Finding]:
    """Everything a run rests on, tried once. A subject that cannot even start is one failed finding, not an error.

    Raises BoxUnavailableError.
    """
    try:
        began = anyio.current_time()
        async with bench(subject, policy=policy, overrides=overrides) as (session, boxes):
            opened_s = anyio.current_time() - began
            found = [
                _mode(session),
                *_splits(session),
                *_files(session),
                *_range(session),
                *price_findings(session, Finding),
                *call_findings(session, Finding),
            ]
            found += await _box(boxes)
            found += await _agent(session, boxes, subject)
            if session.subject.file.subject.needs_model:
                model = next(iter(session.policy.models))
                mend = f"`strop doctor --model {model} --subject {subject}` asks it; a run measures the root first"
                return [*found, Finding("root", "warning", "not run: it asks a model, and this check asks none", mend)]
            try:
                began = anyio.current_time()
                tree = await session.store.write(session.subject.root)
                stored_s = anyio.current_time() - began
                await measure_root(session, tree)
            except InputError as error:
                return [*found, Finding("root", "failed", error.problem, error.mend)]
            return [
                *found,
                *_noise(session),
                *_holdout(session),
                *_timeout(session),
                *await anchor_findings(session, Finding),
                *await emptied_findings(session, Finding),
                _budget(session, opened_s, stored_s),
            ]
    except InputError as error:
        return [Finding("subject", "failed", error.message, error.mend)]


async def _agent(session: Session, boxes: Boxes, subject: Path) -> list[Finding]:
    """Whether an agent that works in a box finds there what it needs."""
    try:
        if await prove(session.policy, boxes, folders(session.policy, subject)):
            return [Finding("agent", "ok", f"{session.policy.agent.name}: its program is in its box")]
    except InputError as error:
        return [Finding("agent", "failed", error.message, error.mend)]
    return []


def _mode(session: Session) -> Finding:
    settings = session.subject.file.eval
    if settings.mode in ("split", "tasks"):
        return Finding("eval", "ok", "the code that is judged never meets labels or scorer")
    if settings.mode == "inline" and script_of(settings.run) is None:
        return Finding(
            "eval",
            "warning",
            f"inline, and {settings.run[0]} is not a Python command: the eval is not started isolated",
            'run it as ["python", "eval.py"], or better, use mode = "split"',
        )
    if settings.mode == "simulation":
        return Finding("eval", "warning", "a simulation: nothing is run", "this is for looking at policies only")
    return Finding(
        "eval",
        "warning",
        f"{settings.mode}: candidate and eval share a process, so a candidate can change what is measured",
        'write outputs to files and use mode = "split"',
    )


def _splits(session: Session) -> list[Finding]:
    splits = session.subject.splits
    found: list[Finding] = []
    if session.subject.file.eval.mode == "simulation":
        return found
    for split in (Split.HOLDOUT, Split.VAULT):
        if split not in splits:
            found.append(
                Finding(
                    f"{split} split",
                    "warning",
                    "there is none",
                    f"put examples that nobody has seen into splits.{split}",
                )
            )
    whole = session.subject.file.eval.mode == "tasks"
    trees = {str(split): _by_task(data.inputs) if whole else data.inputs for split, data in splits.items()}
    ids = frozenset(name for data in splits.values() for name in ids_of(data.labels))
    return [*found, *_disjoint(near_duplicates(trees, ids))] if len(trees) > 1 else found


def _disjoint(seen: Likeness) -> list[Finding]:
    name, left = "splits disjoint", f"; not looked at: {', '.join(seen.unread[:3])}" if seen.unread else ""
    if seen.equal:
        mend = "remove what two splits share; a new id makes no new example"
        return [Finding(name, "failed", f"{len(seen.equal)} equal: {seen.equal[0]}", mend)]
    if seen.near:
        mend = "look at them; near twins leak"
        return [Finding(name, "warning", f"{len(seen.near)} nearly equal: {seen.near[0]}{left}", mend)]
    if seen.by_chance:
        detail = f"{len(seen.by_chance)} equal, as often as inside one split: {seen.by_chance[0]}{left}"
        return [Finding(name, "warning", detail, "what is equal to something seen is no test: remove it if you can")]
    if not seen.rows:
        mend = "see to it yourself that no two splits share examples: the inputs say nothing that can be compared"
        return [Finding(name, "warning", f"nothing was compared{left}", mend)]
    detail = f"no equal or nearly equal examples among {seen.rows}{left}"
    if any("only as a whole" in one for one in seen.unread):
        mend = "write examples as rows of text, JSON or numpy arrays, or as a file each"
        return [Finding(name, "warning", detail, mend)]
    return [Finding(name, "ok", detail)]


def _by_task(inputs: Tree) -> Tree:
    """One file a task: everything it is told."""
    tasks: dict[str, list[bytes]] = {}
    for path, file in inputs.items():
        tasks.setdefault(path.split("/", 1)[0], []).append(file.data)
    return Tree((task, File(b"\n".join(parts))) for task, parts in tasks.items())


def _files(session: Session) -> list[Finding]:
    """What the files alone say."""
    subject = session.subject
    if subject.file.eval.mode not in ("split", "tasks"):
        return []
    told = answers_in_sight(subject)
    found = [
        Finding("labels hidden", "failed", told[0], "keep answers in labels/ alone: candidates read everything else")
        if told
        else Finding("labels hidden", "ok", "no label file lies where candidates read")
    ]
    if hinted := answers_hinted(subject):
        mend = "shuffle the examples, and give them ids that say nothing"
        found.append(Finding("labels hinted", "warning", hinted[0], mend))
    if subject.file.eval.mode != "split":
        return found
    runs = running(subject.scorer, subject.file.eval.score or ())
    mend = "outputs are what a candidate wrote: read them as plain text, JSON or arrays without objects"
    if runs:
        found.append(Finding("scorer", "failed", "; ".join(runs[:3]), mend))
    elif doubted := careless(subject.scorer):
        found.append(Finding("scorer", "warning", "; ".join(doubted[:3]), mend))
    return found


def _range(session: Session) -> list[Finding]:
    settings = session.subject.file.eval
    if settings.range is not None or settings.mode == "simulation":
        return []
    mend = "declare eval.range: a value that cannot be is refused, and bounds have a unit"
    return [Finding("range", "warning", f"{settings.metric} may be any number up to 1e100", mend)]


async def _box(boxes: Boxes) -> list[Finding]:
    if isinstance(boxes, NoBoxes):
        return []
    if not boxes.isolated:
        return [Finding("box", "failed", f"{boxes.name}: no isolation", 'use box.backend = "embedded" or "docker"')]
    try:
        tried = await selfcheck(boxes)
    except StropError as error:
        return [Finding("box", "failed", error.message, error.mend)]
    broken = [probe for probe in tried if probe.held is False]
    if broken:
        return [Finding("box", "failed", f"{broken[0].name}: {broken[0].detail}", "`strop doctor` says more")]
    return [Finding("box", "ok", f"{boxes.name}: {sum(probe.held is True for probe in tried)} promises proved")]


def _noise(session: Session) -> list[Finding]:
    standing, gate = session.standing, session.policy.gate
    score = standing.reference[ROOT]
    if standing.deterministic:
        least = gate.min_effect or _grain(session)
        step = f"{least:.4g}" if least else "any"
        return [
            Finding(
                "noise", "ok", f"none: two runs of the root agree ({session.subject.file.eval.metric} {score:.4g})"
            ),
            _step(f"{step}: 1 run to see it, {worst_case(session)} to keep it", _room(session, score), gate.min_effect),
        ]
    noise = standing.noise
    alpha = session.gate.alpha(1)
    least = least_gain(noise, alpha, gate.pairs) + gate.min_effect
    room = _room(session, score)
    more = pairs_for(noise, alpha, room / 4) if room else None
    cost = 1 + 2 * gate.pairs
    double = least_gain(noise, alpha, 2 * gate.pairs) + gate.min_effect
    found = [Finding("noise", "ok", f"standard deviation {noise:.4g} around {score:.4g} over 4 runs of the root")]
    detail = f"{least:.4g} with power 0.8 ({gate.pairs} pairs at level {alpha:.2g}): {cost} runs each time"
    detail += f"; {double:.4g} with gate.pairs = {2 * gate.pairs}"
    if room is not None and least > room:
        mend = f"gate.pairs = {more} would see a quarter of it" if more else "make the eval less noisy: more examples"
        found.append(Finding("smallest gain", "failed", f"{detail}; the metric has only {room:.4g} left", mend))
    elif room is not None and least > room / 2:
        mend = f"gate.pairs = {more} would see {room / 4:.4g}" if more else "use more examples"
        found.append(Finding("smallest gain", "warning", f"{detail}, more than half of the {room:.4g} left", mend))
    else:
        found.append(Finding("smallest gain", "ok", detail))
    return found


def _step(detail: str, room: float | None, needed: float) -> Finding:
    """Whether a step of a deterministic metric has room left in its range."""
    if room is None or (room > 0 and needed <= room / 2):
        return Finding("smallest gain", "ok", detail)
    if room <= 0:
        mend = "ask something that the root does not do yet: harder or more examples, another metric"
        return Finding("smallest gain", "failed", "none: the root is at the best end of the range already", mend)
    state: State = "failed" if needed > room * (1 + _ROUNDING) else "warning"
    return Finding("smallest gain", state, f"{detail}; the metric has only {room:.4g} left", "lower gate.min_effect")


def _room(session: Session, score: float) -> float | None:
    """How much better the metric can get, where its range says so; tests are a share whatever is declared."""
    settings = session.subject.file.eval
    allowed = (0.0, 1.0) if settings.mode == "pytest" else settings.range
    if allowed is None:
        return None
    return score - allowed[0] if session.gate.direction == "min" else allowed[1] - score


def _grain(session: Session) -> float:
    """One example's share, where scores are means of 0/1 items."""
    count = len(session.standing.item_ids.get(Split.VISIBLE.value, ()))
    return 1 / count if count else 0.0


def _holdout(session: Session) -> list[Finding]:
    if not session.has(Split.HOLDOUT) or session.subject.file.eval.mode == "simulation":
        return []
    best = session.standing.holdout.get(ROOT)
    if best is not None and session.standing.deterministic and at_end(session, best) == "best":
        mend = "no candidate can gain there: hide harder or more examples"
        state: State = "warning" if session.policy.holdout.method == "thresholdout" else "failed"
        return [Finding("holdout", state, f"the root has {best:g} there, the best end of the range", mend)]
    examples = len(session.standing.item_ids.get(Split.HOLDOUT.value, ()))
    if not examples:
        return [
            Finding(
                "holdout", "warning", "the scorer gives no items: no bound can be put beside its word", "write `items`"
            )
        ]
    policy = session.policy
    queries = max(1, min(policy.gate.candidates, policy.budget.steps))
    eps = holdout_epsilon(queries, policy.holdout.surprises, examples)
    state = "ok" if eps <= 0.15 else "warning"
    detail = f"{examples} examples: after {queries} queries a claim may be off by eps {eps:.3f}"
    if eps >= 1:
        detail += ", which is more than the whole range"
        return [Finding("holdout", "failed", detail, "hide more examples, or ask it fewer times")]
    return [Finding("holdout", state, detail, "" if state == "ok" else "more hidden examples make the bound smaller")]


def _timeout(session: Session) -> list[Finding]:
    """Whether a candidate that takes twice as long as the root still ends in time."""
    settings, longest = session.subject.file.eval, session.rollouts.longest_s
    if settings.mode in ("tasks", "simulation") or 2 * longest <= settings.timeout_s:
        return []
    detail = f"the root took {longest:.3g} of its {settings.timeout_s:g} s: a busy machine ends sound candidates"
    return [Finding("timeout", "warning", detail, f"eval.timeout_s = {max(1, math.ceil(4 * longest))}")]


def _budget(session: Session, opened_s: float, stored_s: float) -> Finding:
    """What the steps take at most: whole rollouts as measured, `stored_s` seconds of git a step, `opened_s` once."""
    budget, most = session.policy.budget, ticket_worst_case(session)
    root = session.standing.marks[0].rollouts
    around = root + vault_rollouts(session)
    needed = around + budget.steps * most
    longest = max(session.rollouts.took.values(), default=0.0)
    workers = session.policy.schedule.workers
    fixed = opened_s + root * longest / workers + vault_s(session) + CLOSING_S
    alone = Stages(session).worst_case() if by_task(session) else 0  # rollouts of one task each
    task = longest * AT_ONCE / max(1, len(session.standing.item_ids.get(Split.VISIBLE.value, ()))) if alone else longest
    dear = ((most - alone) * longest + alone * min(task, longest)) / workers + stored_s
    cheap = min(task, longest) / workers + stored_s
    wall = fixed + budget.steps * dear
    likely = f"{needed} rollouts at most for {budget.steps} steps, about {wall:.0f} s of wall time"
    if session.policy.models:
        likely += " and what models take"
    left = budget.wall_s - fixed
    sure = max(0, min((budget.rollouts - around) // most, math.floor(left / dear) if dear > 0 else budget.steps))
    if needed <= budget.rollouts and wall <= budget.wall_s:
        return Finding("budget", "ok", likely)
    if budget.rollouts - around < most:
        return Finding("budget", "failed", f"{likely}; {budget.rollouts} cover no step", "raise budget.rollouts")
    mend = f"budget.rollouts = {needed} covers the worst case"
    if wall > budget.wall_s:
        mend = f"budget.wall_s = {math.ceil(wall)} or fewer steps"
    likely += f"; the budget is sure to cover {sure} steps"
    if left < budget.steps * cheap:
        likely += ", and all of them not even at one run each"
        return Finding("budget", "failed", likely, mend)
    return Finding("budget", "warning", likely, mend)


def root_key(session: Session) -> RolloutKey:
    """The root's first visible run."""
    return RolloutKey(session.standing.variants[ROOT].tree, Split.VISIBLE, 0, 0, "root")


async def root_outcome(session: Session) -> Outcome:
    """How it ended; paid for already."""
    return await session.rollouts.run(root_key(session), session.subject.root)
