"""A tripwire from the other side: a candidate with nothing in it must be worse than the root, or have no score."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from harness.evaluation.contract import Evaluation
from harness.evaluation.inline import InlineEvaluation
from harness.evaluation.result import examples
from harness.evaluation.split import SplitEvaluation
from harness.evaluation.subject import Subject
from harness.evaluation.suite import SuiteEvaluation
from harness.records import Outcome, RolloutKey, Split
from harness.research.session import Session
from harness.research.standing import ROOT
from harness.tree import File, Tree

_F = TypeVar("_F")
_BEYOND = 3.0


async def emptied_findings(session: Session, make: Callable[..., _F]) -> list[_F]:
    """Run the root with every editable file blank, and look at the root's own examples where no anchor does.

    With models the root is run without an answer from them, and says nothing about what its files are worth.
    """
    evaluation: Evaluation = session.rollouts.evaluation
    beside = isinstance(evaluation, InlineEvaluation | SuiteEvaluation)
    if not beside and (not isinstance(evaluation, SplitEvaluation) or session.policy.models):
        return []
    key = RolloutKey(session.standing.variants[ROOT].tree, Split.VISIBLE, 0, 0, "root")
    root = await session.rollouts.run(key, session.subject.root)
    found = _same_for_all(session, make, root) if beside else []
    blank = blanked(session.subject)
    if blank is None:
        return found
    seed = session.rollouts.given(key)
    return [*found, _judged(session, make, root, await evaluation.rollout(blank, Split.VISIBLE, seed))]


def blanked(subject: Subject) -> Tree | None:
    """The root with nothing in what may change; None where nothing is in it anyway."""
    changed = {path: File(b"") for path, file in subject.root.items() if subject.editable(path) and file.data.strip()}
    return Tree({**dict(subject.root.items()), **changed}) if changed else None


def _judged(session: Session, make: Callable[..., _F], root: Outcome, blank: Outcome) -> _F:
    name = "emptied candidate"
    if blank.score is None or frozenset(blank.items) != frozenset(root.items):
        return make(name, "ok", "no score")
    standing = session.standing
    gain = session.gate.gain(blank.score, standing.reference[ROOT])
    luck = 0.0 if standing.deterministic else _BEYOND * standing.noise
    if gain < -luck:
        return make(name, "ok", f"scored {blank.score:g}, worse than the root")
    said = f"scored {blank.score:g} with every editable file blank, no worse than the root"
    mend = "check that the eval runs what `editable` names, and that its result depends on it"
    unsure = not standing.deterministic and gain <= luck
    return make(name, "warning" if unsure or at_end(session, blank.score) == "worst" else "failed", said, mend)


def at_end(session: Session, score: float) -> str | None:
    """`best` or `worst` where `score` is that end of the declared range; tests are a share whatever is declared."""
    settings = session.subject.file.eval
    allowed = (0.0, 1.0) if settings.mode == "pytest" else settings.range
    if allowed is None or score not in allowed:
        return None
    low = score == allowed[0]
    return "best" if low == (settings.direction == "min") else "worst"


def _same_for_all(session: Session, make: Callable[..., _F], root: Outcome) -> list[_F]:
    """An eval that says the same of every example; one that nothing passes yet may be a task still to be done."""
    values = set(examples(root.items).values())
    if not values:
        mend = "let the eval write `items`: they give intervals, paired tests and a bound for the holdout"
        return [make("items", "warning", "the eval gives no score per example", mend)]
    count = len(examples(root.items))
    if len(values) > 1 or count <= 4:
        return [make("tripwire", "ok", f"{count} examples, {len(values)} different scores")]
    (value,) = values
    worst = at_end(session, value) == "worst"
    said = f"the eval gives each of {count} examples the same score: {value:g}"
    mend = "an eval like that can show no gain; let it ask something that is not yet solved"
    return [make("tripwire", "warning" if worst else "failed", said, "see that it can be passed" if worst else mend)]
