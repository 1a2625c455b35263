"""Grader anchors: outputs whose grade is known beforehand; tripwires for a scorer that says the same to everything."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from harness.evaluation.result import examples
from harness.evaluation.split import SplitEvaluation
from harness.policy.honest import AnchorTable
from harness.records import Outcome, Split, Status
from harness.research.preflight.emptied import at_end
from harness.research.session import Session
from harness.tree import Entry

_F = TypeVar("_F")
_ANSWERS = (None, b"0", b"1", b"2")
_HEADLESS = re.compile(rb"\s*[-+.\d]")


async def anchor_findings(session: Session, make: Callable[..., _F]) -> list[_F]:
    """Grade the root's outputs, blank ones and scrambled ones. Nothing of it is possible outside split mode."""
    evaluation = session.rollouts.evaluation
    if not isinstance(evaluation, SplitEvaluation):
        return []
    ran, written = await evaluation.produce(session.subject.root, Split.VISIBLE, 1)
    if ran.status is not Status.OK:
        return [make("anchors", "failed", f"the root did not run again: {ran.detail}", "make the root run every time")]
    graded = await evaluation.grade(ran, written, Split.VISIBLE)
    blank = await evaluation.grade(ran, [replace(entry, data=b"") for entry in written], Split.VISIBLE)
    nothing = await evaluation.grade(ran, [], Split.VISIBLE)
    mixed = await evaluation.grade(ran, [scrambled(entry) for entry in written], Split.VISIBLE)
    again = await evaluation.grade(ran, written, Split.VISIBLE)
    found = [_repeats(make, graded, again)]
    for name, outcome in (("blank outputs", blank), ("no outputs", nothing)):
        found.append(_must_fail(session, make, name, graded, outcome))
    if _same(graded, mixed) and await _constant(session, evaluation, written, graded):
        said = f"whatever is answered it says {graded.score:g}: no candidate can win"
        found.append(make("anchor: scrambled", "failed", said, "let the scorer compare answers with labels"))
    else:
        found.append(_scrambled(session, make, graded, mixed))
    for declared in session.subject.file.eval.anchor:
        known = await evaluation.grade(ran, session.subject.anchors[declared.folder].entries(), Split.VISIBLE)
        found.append(_declared(make, declared, known))
    found += _tripwires(session, make, graded)
    return found


async def _constant(session: Session, evaluation: SplitEvaluation, written: Sequence[Entry], graded: Outcome) -> bool:
    """Whether the scorer says the same to all answers. A root that is wrong everywhere proves nothing of the kind."""
    if graded.score is None or at_end(session, graded.score) == "worst":
        return False
    heard = 0
    for answer in _ANSWERS:
        told = [alike(entry, answer) for entry in written]
        if told == list(written):
            continue
        outcome = await evaluation.grade(graded, told, Split.VISIBLE)
        if outcome.status is Status.OK and not _same(graded, outcome):
            return False
        heard += outcome.status is Status.OK
    return heard > 1


def _same(first: Outcome, second: Outcome) -> bool:
    return first.score == second.score and first.items == second.items


def alike(entry: Entry, answer: bytes | None) -> Entry:
    """A table with one answer to every question: `answer`, else the first of its own."""
    rows = entry.data.split(b"\n")
    head, body = rows[:1], [row for row in rows[1:] if row]
    if not body or not all(b"," in row for row in body):
        return entry
    one = body[0].rpartition(b",")[2] if answer is None else answer
    if _HEADLESS.match(head[0].rpartition(b",")[2]):
        head, body = [], [*head, *body]
    return replace(entry, data=b"\n".join([*head, *(row.rpartition(b",")[0] + b"," + one for row in body), b""]))


def scrambled(entry: Entry) -> Entry:
    """The same answers given to other questions: a table's last column, or a text's lines, in another order."""
    rows = entry.data.split(b"\n")
    mixer = random.Random(0)  # noqa: S311 - a fixed order, not a secret
    head, body = rows[:1], [row for row in rows[1:] if row]
    if body and all(b"," in row for row in body):
        answers = [row.rpartition(b",")[2] for row in body]
        mixer.shuffle(answers)
        body = [row.rpartition(b",")[0] + b"," + one for row, one in zip(body, answers, strict=True)]
    else:
        mixer.shuffle(body)
    return replace(entry, data=b"\n".join([*head, *body, b""]))


def _repeats(make: Callable[..., _F], first: Outcome, second: Outcome) -> _F:
    if first.status is not Status.OK:
        return make("anchor: root", "failed", f"its own outputs get no score: {first.detail}", "mend the scorer")
    same = first.score == second.score and first.items == second.items
    if not same:
        mend = "a scorer must not draw lots: seed it, or take the luck out"
        return make("anchor: root", "failed", f"scored {first.score}, then {second.score}, on the same outputs", mend)
    return make("anchor: root", "ok", f"its own outputs are scored {first.score:g} every time")


def _must_fail(session: Session, make: Callable[..., _F], name: str, root: Outcome, outcome: Outcome) -> _F:
    if outcome.score is None:
        return make(f"anchor: {name}", "ok", "refused: no score")
    assert root.score is not None
    gain = session.gate.gain(outcome.score, root.score)
    if gain >= 0:
        mend = "let the scorer refuse what does not answer every example"
        return make(f"anchor: {name}", "failed", f"scored {outcome.score:g}, no worse than the root", mend)
    return make(
        f"anchor: {name}", "warning", f"scored {outcome.score:g}; better refused", "exit with 1 on outputs like these"
    )


def _declared(make: Callable[..., _F], declared: AnchorTable, outcome: Outcome) -> _F:
    """Whether outputs that the user knows the grade of got that grade."""
    name = f"anchor: {declared.folder}"
    if declared.score is None:
        if outcome.score is None:
            return make(name, "ok", "refused, as declared")
        return make(name, "failed", f"scored {outcome.score:g}, declared to be refused", "mend the scorer")
    if outcome.score is None:
        return make(name, "failed", f"declared {declared.score:g}, but {outcome.detail}", "mend the scorer")
    if abs(outcome.score - declared.score) > declared.tolerance + 1e-12:
        mend = "mend the scorer, or declare what it should give"
        return make(name, "failed", f"scored {outcome.score:g}, declared {declared.score:g}", mend)
    return make(name, "ok", f"scored {outcome.score:g}, as declared")


def _scrambled(session: Session, make: Callable[..., _F], root: Outcome, outcome: Outcome) -> _F:
    if outcome.score is None:
        return make("anchor: scrambled", "ok", "refused: no score")
    assert root.score is not None
    gain = session.gate.gain(outcome.score, root.score)
    if gain >= 0:
        return make(
            "anchor: scrambled",
            "failed" if gain > 0 else "warning",
            f"answers given to other questions are scored {outcome.score:g}, no worse than the root",
            "check that the scorer compares each answer with its own label",
        )
    return make("anchor: scrambled", "ok", f"scored {outcome.score:g}, worse than the root")


def _tripwires(session: Session, make: Callable[..., _F], graded: Outcome) -> Sequence[_F]:
    items = examples(graded.items)
    if not items:
        mend = "let the scorer write `items`: they give intervals, paired tests and a bound for the holdout"
        return [make("items", "warning", "the scorer gives no score per example", mend)]
    values = set(items.values())
    allowed: Any = session.subject.file.eval.range
    found: list[_F] = []
    if len(values) == 1 and len(items) > 4:
        (value,) = values
        best = allowed is not None and value in allowed
        word = "always passes or always fails" if best else "gives every example the same score"
        found.append(make("tripwire", "failed", f"the scorer {word}: {value:g}", "an eval like that can show no gain"))
    else:
        found.append(make("tripwire", "ok", f"{len(items)} examples, {len(values)} different scores"))
    return found
