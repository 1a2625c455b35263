"""The toy prompt world as the world of a simulated subject. SIMULATION: no code is run, no model is asked.

The subject's slots are `prompts/parse.txt`, `prompts/answer.txt` and `prompts/demos.json`; each split has 60 questions
of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.optimizer.base import Call, Example, Reply, Request, Result
from harness.records import Outcome, Split, Status
from harness.streams import derive, stream
from harness.testing.prompt_critic import PromptCritic
from harness.testing.prompt_world import CHOICES, MODULE_OF, PromptWorld, questions
from harness.tree import Tree

FILES = {"parse": "prompts/parse.txt", "answer": "prompts/answer.txt", "demos": "prompts/demos.json"}
PER_SPLIT = 60
_SEEDS = {Split.VISIBLE: 101, Split.HOLDOUT: 202, Split.VAULT: 303}


@dataclass(frozen=True, slots=True)
class PromptSubject:
    """The world of `archives/prompt-world`. `wrong` is the share of its critic's advice that is off."""

    wrong: float = 0.0
    example: str = ""

    def rollout(self, tree: Tree, split: Split, seed: int) -> Outcome:
        """Every question of the split (or the one), each right or wrong by the formula and the seed."""
        texts = texts_of(tree)
        world = PromptWorld()
        items: dict[str, float] = {}
        for one in questions(PER_SPLIT, _SEEDS[split]):
            if self.example in ("", one.id):
                draw = derive(seed, "question", one.id) / 2.0**63
                items[one.id] = float(draw < world.chance(texts, str(one.inputs["kind"])))
        return Outcome(Status.OK, sum(items.values()) / len(items), items)

    def visible(self) -> Sequence[Example]:
        """The visible questions."""
        return questions(PER_SPLIT, _SEEDS[Split.VISIBLE])

    def misled(self, wrong: float) -> PromptSubject:
        """The world with a critic whose advice is off that often."""
        return PromptSubject(wrong, self.example)

    def only(self, example: str) -> PromptSubject:
        """The world with one question."""
        return PromptSubject(self.wrong, example)

    def result(self, example: Example, outcome: Outcome) -> Result:
        """A rollout with the grader's feedback. The texts are not in the outcome, so the rule is always named."""
        kind, answer = str(example.inputs["kind"]), int(str(example.expected))
        right = outcome.score == 1.0
        said = answer if right else (answer + 1) % CHOICES
        module = MODULE_OF[kind]
        feedback = PromptWorld().feedback({"parse": "", "answer": ""}, kind, right)
        trace = (Call(module, f"kind {kind}", str(said)),)
        return Result(example.key, outcome.status, outcome.score, feedback, trace=trace)

    def complete(self, request: Request, seed: int) -> Reply:
        """The simulated critic."""
        return Reply(PromptCritic(self.wrong).answer(request, stream(seed, "critic")))


def texts_of(tree: Tree) -> dict[str, str]:
    """The candidate's texts."""
    return {name: tree[path].data.decode("utf-8", "replace") for name, path in FILES.items()}
