"""The root, measured first: does it run, is its metric deterministic, how noisy is it."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence

from harness.errors import InputError
from harness.events import RootMeasured
from harness.failpoint import failpoint
from harness.policy.load import SUBJECT_FILE
from harness.policy.schema import Policy
from harness.records import Json, Outcome, RolloutKey, Split, Status
from harness.research.evidence.gate import noise
from harness.research.evidence.paired import guard_values
from harness.research.evidence.posterior import Share
from harness.research.models import NO_MODEL
from harness.research.rollouts import cite
from harness.research.session import Session
from harness.research.staging import by_task, posterior, value_of
from harness.research.standing import ROOT
from harness.untrusted import line

REPEATS_WHEN_NOISY = 4
ROOT_ROLLOUTS = REPEATS_WHEN_NOISY + 1
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^'.]+)")
_NO_PROGRAM = re.compile(r"strop: cannot run [^\n]*No such file")
_UNREACHED = re.compile(r"OPENAI_|ANTHROPIC_|api_key|connection ?(refused|error)|connecterror", re.IGNORECASE)


async def measure_root(session: Session, tree: str) -> None:
    """Run the root twice (four times if the runs differ) on visible and once on holdout; record it.

    Raises InputError if the root has no score: there is nothing to improve on.
    """
    keys = [RolloutKey(tree, Split.VISIBLE, repeat, 0, "root") for repeat in range(2)]
    asked = [RolloutKey(tree, Split.HOLDOUT, 0, 0, "root")] if session.has(Split.HOLDOUT) else []
    *outcomes, last = await _run(session, [*keys, *asked])
    held = last if asked else None
    outcomes = outcomes if asked else [*outcomes, last]
    _check_guards(session, outcomes[0])
    deterministic = outcomes[0].score == outcomes[1].score and outcomes[0].items == outcomes[1].items
    if not deterministic:
        _check_budget(session)
        more = [RolloutKey(tree, Split.VISIBLE, repeat, 0, "root") for repeat in range(2, REPEATS_WHEN_NOISY)]
        outcomes += await _run(session, more)
        keys += more
    seen = list(outcomes)
    scores = [outcome.score for outcome in seen if outcome.score is not None]
    score = scores[0] if deterministic else math.fsum(scores) / len(scores)
    item_ids: dict[str, Json] = {Split.VISIBLE.value: [*sorted(outcomes[0].items)]}
    if held is not None:
        item_ids[Split.HOLDOUT.value] = [*sorted(held.items)]
        keys, outcomes = [*keys, *asked], [*outcomes, held]
    failpoint("root-measured")
    body: dict[str, Json] = {
        "rollouts": [cite(k, session.rollouts.seed_of(k), o) for k, o in zip(keys, outcomes, strict=True)],
        "score": score,
        "deterministic": deterministic,
        "noise": noise(scores),
        "holdout": held.score if held else None,
        "item_ids": item_ids,
    }
    if by_task(session):
        body["tasks"] = posterior(session, root_share(session, seen))
        shaky = [name for name in sorted(seen[0].items) if len({one.items[name] for one in seen}) > 1]
        if shaky and session.policy.stages.unstable > 1:
            body["tasks"]["unstable"] = [*shaky]
    await session.hold.append("root", body)
    session.standing.apply_root(body, tree)
    interval = session.standing.intervals.get(ROOT)
    session.emit(RootMeasured(session.standing.reference[ROOT], deterministic, session.standing.noise, interval))


def root_values(session: Session, runs: Sequence[Outcome]) -> dict[str, float]:
    """Each visible task's mean over the root's runs of the whole split, larger is better, in [0, 1]."""
    names = sorted(runs[0].items)
    return {name: math.fsum(value_of(session, one.items[name]) for one in runs) / len(runs) for name in names}


def root_share(session: Session, runs: Sequence[Outcome]) -> Share:
    """The root's evidence: a task counts once, however often it was run."""
    values = root_values(session, runs)
    wins = math.fsum(values.values())
    return Share(wins, len(values) - wins)


def _check_guards(session: Session, root: Outcome) -> None:
    """A guard that matches nothing would guard nothing, and nobody would know."""
    for place, guard in enumerate(session.subject.file.eval.guard):
        if guard_values(guard, root.items) is None:
            known = ", ".join(line(name, 40) for name in list(root.items)[:3]) or "none"
            raise InputError(
                f"{guard.name} matches no example of the root's result",
                file=SUBJECT_FILE,
                key=f"eval.guard.{place}.items",
                mend=f"correct the globs; the scorer's example ids: {known}",
            )


def least_rollouts(policy: Policy, splits: Collection[Split], *, deterministic: bool = True) -> int:
    """The rollouts a run takes before and after its first ticket: root, holdout and vault."""
    repeats = 1 if deterministic else policy.gate.pairs
    visible = 2 if deterministic else REPEATS_WHEN_NOISY
    return visible + (Split.HOLDOUT in splits) + 2 * repeats * (Split.VAULT in splits)


def _check_budget(session: Session) -> None:
    needed = least_rollouts(session.policy, session.subject.splits, deterministic=False)
    if session.policy.budget.rollouts < needed:
        raise InputError(
            f"{session.policy.budget.rollouts} do not cover root, holdout and vault of a noisy metric",
            key="budget.rollouts",
            mend=f"give at least {needed}, and more for tickets",
        )


async def _run(session: Session, keys: Sequence[RolloutKey]) -> list[Outcome]:
    outcomes = await session.rollouts.run_all(keys, session.subject.root)
    for key, outcome in zip(keys, outcomes, strict=True):
        if outcome.status is not Status.OK:
            problem = f"the root itself has no score on {key.split}: {outcome.status}"
            if not session.policy.models and _UNREACHED.search(outcome.detail):
                last = line(outcome.detail.strip().rpartition("\n")[2], 200)
                problem = f"{problem}: {last}; it seems to ask a model, and the policy names none"
                raise InputError(problem, file=SUBJECT_FILE, key="policy.models", mend=NO_MODEL)
            raise InputError(f"{problem}: {outcome.detail}", file=SUBJECT_FILE, key="eval", mend=_mend(outcome.detail))
    return outcomes


def _mend(detail: str) -> str:
    """What to do about a root that does not run; most often a package or an interpreter of the user's is not there."""
    missing = _NO_MODULE.search(detail)
    if missing is not None:
        return (
            f"the box's python is the one that Strop is installed in: install {missing[1]!r} there, or install Strop "
            "into your project's own environment and start it from that; a docker box has its image's packages"
        )
    if _NO_PROGRAM.search(detail):
        return (
            "a box sees its own python, the system's programs and your subject: write python, or lay your environment "
            'into the boxes with [policy.box.mounts], as "/srv/venv" = "/home/me/venv", and run /srv/venv/bin/python'
        )
    return "make the subject run and score as it is, then start again"
