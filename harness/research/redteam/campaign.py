"""The whole catalogue against one subject."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import anyio

from harness.errors import InputError
from harness.evaluation.contract import Evaluation
from harness.evaluation.simulation import NoBoxes
from harness.evaluation.subject import Subject
from harness.records import RolloutKey, Split
from harness.research.baseline import measure_root
from harness.research.bench import bench
from harness.research.redteam.base import Attack, Target
from harness.research.redteam.trial import Finding, aim, attempt
from harness.research.redteam.unguarded import Naive, Taken
from harness.research.session import Session
from harness.research.standing import ROOT

_PATIENT_S, _PATIENT = 60.0, 20.0  # a busy machine must not look like a control that holds
_BRIEF_S, _BRIEF = 5.0, 4.0


@dataclass(frozen=True, slots=True)
class Campaign:
    """What the catalogue came to. `taken` holds what each attack gains without a guard, when that was asked for."""

    subject: str
    mode: str
    metric: str
    direction: str
    honest: float
    holdout: bool
    findings: tuple[Finding, ...]
    taken: Mapping[str, Taken]

    @property
    def through(self) -> list[Finding]:
        """The attacks that got through."""
        return [finding for finding in self.findings if finding.ending == "got through"]


async def redteam(
    subject: Path,
    attacks: Sequence[Attack],
    *,
    policy: str | None = None,
    overrides: Mapping[str, object] | None = None,
    unguarded: bool = False,
    told: Callable[[Finding], None] = lambda finding: None,
) -> Campaign:
    """Run every attack; `told` hears of each as it ends. Findings are in the attacks' order.

    Attacks run in boxes only: raises InputError for `process` boxes, and what a run raises when its root has no score.
    """
    async with bench(subject, policy=policy, overrides=overrides) as (session, boxes):
        if isinstance(boxes, NoBoxes):
            raise InputError(
                "a simulation runs no code: there is nothing to attack",
                key="eval.mode",
                mend="attack a subject whose code is run",
            )
        if not boxes.isolated:
            raise InputError(
                "attacks would run as you, on this machine", key="box.backend", mend='use "embedded" or "docker"'
            )
        await measure_root(session, await session.store.write(session.subject.root))
        target = await aim(session)
        spec = session.spec
        brief = await _deadlines(session)
        found: dict[int, Finding] = {}
        taken: dict[str, Taken] = {}
        naive = Naive(target, boxes, spec)

        limit = anyio.CapacityLimiter(session.policy.schedule.workers)

        async def one(number: int, attack: Attack) -> None:
            async with limit:
                screening = brief if getattr(attack, "hangs", False) else None
                finding = found[number] = await attempt(session, target, attack, number + 1, screening)
                if unguarded:
                    taken[attack.name] = await naive.take(attack)
                told(finding)

        async with anyio.create_task_group() as group:
            for number, attack in enumerate(attacks):
                group.start_soon(one, number, attack)
        return _campaign(session, target, [found[number] for number in sorted(found)], taken)


async def _deadlines(session: Session) -> Evaluation:
    """Cap the subject's deadline by what the root took, so that nothing hangs for hours. The evaluation returned
    has a brief one, for attacks that are meant to hang."""
    root = session.standing.variants[ROOT]
    honest = await session.rollouts.run(RolloutKey(root.tree, Split.VISIBLE, 0, 0, "root"), session.subject.root)
    brief = _within(session.subject, _BRIEF_S + _BRIEF * honest.wall_s)
    session.subject = _within(session.subject, _PATIENT_S + _PATIENT * honest.wall_s)
    evaluation = session.rollouts.evaluation
    session.rollouts.evaluation = _judging(evaluation, session.subject)
    return _judging(evaluation, brief)


def _judging(evaluation: Evaluation, subject: Subject) -> Evaluation:
    """The same evaluation, its models included, of another subject."""
    return cast("Evaluation", replace(cast("Any", evaluation), subject=subject))


def _within(subject: Subject, deadline_s: float) -> Subject:
    settings = subject.file.eval
    cut = settings.model_copy(update={"timeout_s": min(settings.timeout_s, deadline_s)})
    return replace(subject, file=subject.file.model_copy(update={"eval": cut}))


def _campaign(session: Session, target: Target, findings: list[Finding], taken: Mapping[str, Taken]) -> Campaign:
    settings = session.subject.file.eval
    return Campaign(
        subject=session.subject.file.subject.name,
        mode=settings.mode,
        metric=settings.metric,
        direction=settings.direction,
        honest=target.honest,
        holdout=session.has(Split.HOLDOUT),
        findings=tuple(findings),
        taken=taken,
    )
