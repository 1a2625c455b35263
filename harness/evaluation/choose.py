"""Which evaluation a subject's mode means."""

from __future__ import annotations

from collections.abc import Callable

from harness.box.base import Boxes, BoxSpec
from harness.box.relay import Link
from harness.evaluation.contract import Evaluation
from harness.evaluation.inline import InlineEvaluation
from harness.evaluation.simulation import SimulatedEvaluation, load_world
from harness.evaluation.split import SplitEvaluation
from harness.evaluation.subject import Subject
from harness.evaluation.suite import SuiteEvaluation
from harness.evaluation.tasks import TasksEvaluation


def evaluation_of(subject: Subject, boxes: Boxes, spec: BoxSpec, link: Callable[[], Link] | None = None) -> Evaluation:
    """The evaluation of `subject`, in boxes of `spec`; agents evaluated by task reach the models behind `link`."""
    if subject.file.eval.world is not None:
        return SimulatedEvaluation(load_world(subject.file.eval.world))
    if subject.file.eval.mode == "tasks":
        return TasksEvaluation(subject, boxes, spec, link)
    if subject.file.eval.mode == "split":
        return SplitEvaluation(subject, boxes, spec)
    if subject.file.eval.mode == "pytest":
        return SuiteEvaluation(subject, boxes, spec)
    return InlineEvaluation(subject, boxes, spec)
