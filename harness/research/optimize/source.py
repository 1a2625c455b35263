"""Where an optimizer's examples come from, and how one example is run: from a split's files in boxes, or a world."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from harness.errors import InputError
from harness.evaluation.contract import Evaluation
from harness.evaluation.examples import EXAMPLES, inputs_of, labels_of, only, said_of
from harness.evaluation.simulation import SimulatedEvaluation, World
from harness.evaluation.subject import Subject
from harness.optimizer.base import Call, Example, Reply, Request, Result
from harness.records import Direction, Json, Outcome, Split, Status

_LABEL_KEYS = ("answer", "expected", "label", "output")


class Source(Protocol):
    """Visible examples, and a way to run one."""

    def examples(self) -> Sequence[Example]:
        """Every visible example, in the order of its file."""
        ...

    def evaluation(self, example: str) -> Evaluation:
        """An evaluation that knows this example alone."""
        ...

    def result(self, example: Example, outcome: Outcome) -> Result:
        """What an optimizer may see of a rollout."""
        ...


class PromptWorld(World, Protocol):
    """A simulated world that can be asked by example and has a simulated proposing model."""

    def visible(self) -> Sequence[Example]:
        """The visible examples."""
        ...

    def misled(self, wrong: float) -> PromptWorld:
        """The world with a model whose advice is off that often."""
        ...

    def only(self, example: str) -> World:
        """The world with one example in it."""
        ...

    def result(self, example: Example, outcome: Outcome) -> Result:
        """A rollout with its feedback."""
        ...

    def complete(self, request: Request, seed: int) -> Reply:
        """The simulated model's reply."""
        ...


@dataclass(frozen=True, slots=True)
class FileSource:
    """Examples from `examples.jsonl` of the visible split, labels from the JSON lines beside the scorer's."""

    subject: Subject
    evaluate: Callable[[Subject], Evaluation]

    def examples(self) -> Sequence[Example]:
        """See `Source`."""
        return visible_examples(self.subject)

    def evaluation(self, example: str) -> Evaluation:
        """See `Source`."""
        return self.evaluate(only(self.subject, Split.VISIBLE, example))

    def result(self, example: Example, outcome: Outcome) -> Result:
        """See `Source`."""
        said = said_of(outcome.detail)
        score = oriented(outcome.score, self.subject.file.eval.direction)
        feedback = f"said: {said.output[:600]}"
        if outcome.status is not Status.OK:
            feedback = f"it failed ({outcome.status.value}): {outcome.detail[:600]}"
        elif example.expected is not None:
            feedback += f"; right would be: {_text(example.expected)[:600]}"
        given = _text(dict(example.inputs))
        calls = tuple(Call(*call) for call in said.calls) or (Call("", given, said.output),)
        return Result(
            example.key, outcome.status, score, feedback, objectives=_objectives(example.id, outcome), trace=calls
        )


def visible_examples(subject: Subject) -> list[Example]:
    """The examples of the visible split with their labels. Raises InputError when it holds none by themselves."""
    data = subject.splits.get(Split.VISIBLE)
    inputs = {} if data is None else inputs_of(data)
    if data is None or len(inputs) < 2:
        raise InputError(
            f"the visible split has no two examples in {EXAMPLES}",
            key="splits.visible",
            mend=f'optimizers need single examples: write inputs/{EXAMPLES}, one {{"id": ..., ...}} a line',
        )
    labels = labels_of(data)
    return [
        Example(key, {name: value for name, value in record.items() if name != "id"}, _label(labels.get(key)))
        for key, record in inputs.items()
    ]


@dataclass(frozen=True, slots=True)
class WorldSource:
    """Examples of a simulated world."""

    world: PromptWorld

    def examples(self) -> Sequence[Example]:
        """See `Source`."""
        return self.world.visible()

    def evaluation(self, example: str) -> Evaluation:
        """See `Source`."""
        return SimulatedEvaluation(self.world.only(example))

    def result(self, example: Example, outcome: Outcome) -> Result:
        """See `Source`."""
        return self.world.result(example, outcome)


def oriented(score: float | None, direction: Direction) -> float | None:
    """Larger is better, whatever the metric."""
    return None if score is None else -score if direction == "min" else score


def floor_of(allowed: tuple[float, float] | None, direction: Direction) -> float | None:
    """The worst score of a declared range, oriented; None without one."""
    return None if allowed is None else -allowed[1] if direction == "min" else allowed[0]


def _objectives(example: str, outcome: Outcome) -> dict[str, float]:
    """Parts of the score: items named `<example>:<part>`, as a scorer of tool calls gives."""
    head = f"{example}:"
    return {name.removeprefix(head): value for name, value in outcome.items.items() if name.startswith(head)}


def _label(record: Mapping[str, Any] | None) -> Json:
    if record is None:
        return None
    named = next((record[key] for key in _LABEL_KEYS if key in record), None)
    return cast("Json", named if named is not None else {k: v for k, v in record.items() if k != "id"})


def _text(value: Json | dict[str, Json]) -> str:
    return value if isinstance(value, str) else json.dumps(value)
