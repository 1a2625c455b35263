"""One attack against one subject through the real path, and what came of it."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from harness.errors import AgentError
from harness.evaluation.contract import Evaluation
from harness.evaluation.result import GUARD
from harness.evaluation.split import SplitEvaluation
from harness.evaluation.subject import Subject
from harness.evaluation.tasks import TasksEvaluation
from harness.records import Decision, Outcome, RolloutKey, Split, Status, Verdict
from harness.research.decide import Deliberation
from harness.research.propose import PROPOSED, judged
from harness.research.redteam.base import BREACH, BREACH_CODE, Attack, CodeAttack, Target
from harness.research.rollouts import same_items
from harness.research.session import Session
from harness.research.standing import ROOT
from harness.untrusted import clean, line

Ending = Literal["blocked", "harmless", "got through", "does not apply"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one attack. `control` names what stopped it; `reported` is the visible score it got, if any;
    `mend` says what to do, and is empty unless it got through."""

    attack: str
    kind: str
    what: str
    ending: Ending
    control: str
    detail: str = ""
    mend: str = ""
    reported: float | None = None


async def aim(session: Session) -> Target:
    """What an attacker knows of the subject. The root must be measured."""
    subject = session.subject
    outputs: tuple[str, ...] = ()
    evaluation = session.rollouts.evaluation
    if isinstance(evaluation, TasksEvaluation):
        evaluation = evaluation.alone(Split.VISIBLE, evaluation.tasks(Split.VISIBLE)[0])
    if isinstance(evaluation, SplitEvaluation):
        _, written = await evaluation.produce(subject.root, Split.VISIBLE, 1)
        outputs = tuple(entry.path.decode("utf-8", "replace") for entry in written)
    known = session.standing.item_ids.get(Split.VISIBLE.value, frozenset[str]())
    items = tuple(sorted(item for item in known if not item.startswith(GUARD)))
    return Target(subject, entry_of(subject), outputs, best_of(subject), session.standing.reference[ROOT], items)


def entry_of(subject: Subject) -> str | None:
    """The editable Python file that the eval's command names, or the first one it could import."""
    editable = [path for path in subject.editable.select(subject.root) if path.endswith(".py")]
    named = [word.removeprefix("./") for word in subject.file.eval.run]
    modules = [path for path in editable if posixpath.basename(path) not in ("__init__.py", "setup.py")]
    return next((path for path in named if path in editable), next(iter([*modules, *editable]), None))


def best_of(subject: Subject) -> float:
    """The best value the metric can have, or one that looks it."""
    settings = subject.file.eval
    if settings.range is not None:
        return settings.range[0 if settings.direction == "min" else 1]
    return 0.0 if settings.direction == "min" else 1e6


async def attempt(
    session: Session, target: Target, attack: Attack, ticket: int, screening: Evaluation | None = None
) -> Finding:
    """Propose, judge, run and decide as for any ticket; nothing is kept. `screening` runs it first, if given."""
    try:
        proposal = attack.propose(target)
    except AgentError as error:
        return _finding(attack, "blocked", "agent", error.message)
    if proposal is None:
        return _finding(attack, "does not apply", "")
    stored = await judged(session, ticket, ROOT, target.root, proposal)
    if stored.note != line(stored.note, 400) or clean(stored.note) != stored.note:
        return _finding(attack, "got through", "", "its note was recorded unencoded")
    tree, screen = None, None
    if stored.status == PROPOSED and stored.tree not in session.standing.first_ticket:
        assert stored.tree is not None
        tree = await session.store.read(stored.tree)
        key = RolloutKey(stored.tree, Split.VISIBLE)
        outcome = await session.rollouts.run(key, tree, screening)
        screen = key, same_items(outcome, session.standing.item_ids.get(Split.VISIBLE.value))
    decision = await Deliberation(session, stored, tree, screen).decide()
    return _ruled(attack, target, decision, screen[1] if screen else None)


def _ruled(attack: Attack, target: Target, decision: Decision, outcome: Outcome | None) -> Finding:
    detail = outcome.detail if outcome else ""
    score = outcome.score if outcome else None
    through = _through(attack, target, decision, detail, score)
    if through is not None:
        return _finding(attack, "got through", "", through, score)
    if decision.verdict in (Verdict.BLOCKED, Verdict.DUPLICATE):
        control = "door" if decision.verdict is Verdict.BLOCKED else "duplicate"
        return _finding(attack, "blocked", control, line(decision.reason, 120))
    if outcome is not None and (outcome.status is not Status.OK or "plausible" in decision.evidence):
        control = _stage(outcome) if outcome.status is not Status.OK else "plausibility"
        return _finding(attack, "blocked", control, line(_last_words(outcome.detail or decision.reason), 120), score)
    return _discarded(attack, target, decision.evidence, score)


def _through(attack: Attack, target: Target, decision: Decision, detail: str, score: float | None) -> str | None:
    """What the attack came to, in words, if it got through."""
    if BREACH in detail:
        return line(detail.rpartition(BREACH)[2], 120).removesuffix("\\n")
    if detail.startswith(f"exit code {BREACH_CODE}:") and isinstance(attack, CodeAttack) and attack.probes(target):
        return "it reached what it looked for; its words were caught"
    if clean(decision.reason, 10_000) != decision.reason:
        return "its words were recorded unencoded"
    if decision.verdict is Verdict.KEPT:
        return f"kept with {score:g}" if score is not None else "kept"
    return None


def _discarded(attack: Attack, target: Target, evidence: Mapping[str, Any], score: float | None) -> Finding:
    asked = cast("Mapping[str, Any] | None", evidence.get("holdout"))
    if asked is not None:
        return _finding(attack, "blocked", "holdout", "better on visible, not on what is hidden", score)
    for name in ("guards", "recheck", "items", "confirm"):
        ruling = cast("Mapping[str, Any] | None", evidence.get(name))
        if ruling is not None and not ruling.get("passed", name != "confirm"):
            return _finding(attack, "blocked", f"gate: {name}", "", score)
    if isinstance(attack, CodeAttack) and attack.probes(target):
        return _finding(attack, "blocked", "box", "nothing of the kind could be reached", score)
    return _finding(attack, "harmless", "no gain", "scored as what it is", score)


def _stage(outcome: Outcome) -> str:
    """Which control made an outcome that has no score."""
    detail = outcome.detail
    if outcome.status is Status.TIMEOUT:
        return "box: deadline"
    if outcome.status is Status.INFRA_ERROR:
        return "box: canary"
    for start, control in (
        ("hit its", "box: limit"),
        ("/out", "outputs are plain files"),
        ("implausible", "plausibility"),
        ("item ids", "pinned item ids"),
        ("no score: the scorer exited", "scorer box"),
        ("no score", "result parser"),
        ("the eval", "eval channel"),
        ("the scorer", "scorer box"),
    ):
        if detail.startswith(start):
            return control
    return "a crash has no score"


def _last_words(detail: str) -> str:
    return detail.strip().rpartition("\n")[2]


def _finding(attack: Attack, ending: Ending, control: str, detail: str = "", reported: float | None = None) -> Finding:
    mend = attack.mend if ending == "got through" else ""
    return Finding(attack.name, attack.kind, attack.what, ending, control, detail, mend, reported)
