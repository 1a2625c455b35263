"""A toy world of prompts: a model whose accuracy is a formula of the words in its instructions and of its demos.

Simulation, and labelled so wherever it is shown: six kinds of question, three read by module `parse` and three by
module `answer`; an instruction helps a kind when it names that kind's rule; two rules get in another kind's way;
demos help or harm; length costs. No number here says anything about a real model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast

from harness.optimizer.base import Example, Part, Slot
from harness.streams import stream

RULES = {"A": "units", "B": "negatives", "C": "dates", "D": "abbrev", "E": "currency", "F": "ties"}
KINDS = tuple(RULES)
MODULES = {"parse": ("A", "B", "C"), "answer": ("D", "E", "F")}
MODULE_OF = {kind: module for module, kinds in MODULES.items() for kind in kinds}
KIND_OF = {word: kind for kind, word in RULES.items()}
DISTRACTORS = ("carefully", "persona", "stakes", "concise", "friendly", "step")
VOCABULARY = (*RULES.values(), *DISTRACTORS)
IN_THE_WAY = {("negatives", "C"): 0.30, ("abbrev", "F"): 0.25}
CHOICES = 4
SEED_TEXT = "Solve the task."


@dataclass(frozen=True, slots=True)
class Formula:
    """The made-up accuracy model: probabilities added and taken away, then clamped to [floor, cap]."""

    base: float = 0.35
    rule_gain: float = 0.40
    demo_gain: float = 0.10
    wrong_demo_cost: float = 0.10
    demos_that_count: int = 2
    word_cost: float = 0.02
    free_words: int = 10
    demo_cost: float = 0.01
    free_demos: int = 6
    floor: float = 0.02
    cap: float = 0.98


@dataclass(frozen=True, slots=True)
class PromptWorld:
    """The simulated program. `shared` has one instruction for both modules instead of one each."""

    shared: bool = False
    formula: Formula = Formula()

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The declared slots: instructions, and a list of demos."""
        texts = (
            (Slot("instruction", SEED_TEXT),)
            if self.shared
            else tuple(Slot(module, SEED_TEXT, module=module) for module in MODULES)
        )
        return (*texts, Slot("demos", "[]", kind="demos", max_chars=100_000))

    def seed(self) -> dict[str, str]:
        """The seed candidate."""
        return {slot.name: slot.text for slot in self.slots}

    def words(self, texts: Mapping[str, str], module: str) -> list[str]:
        """The words of the instruction that `module` reads; bullets and full stops are no words."""
        text = texts["instruction" if self.shared else module]
        return [word for word in (part.strip(".,:;*-") for part in text.split()) if word]

    def chance(self, texts: Mapping[str, str], kind: str) -> float:
        """The exact chance of a right answer on a question of this kind."""
        at, module = self.formula, MODULE_OF[kind]
        words = self.words(texts, module)
        demos = demos_of(texts)
        mine = [right for shown, right in demos if shown == kind]
        value = at.base + at.rule_gain * (RULES[kind] in words)
        value += at.demo_gain * min(sum(mine), at.demos_that_count)
        value -= at.wrong_demo_cost * min(len(mine) - sum(mine), at.demos_that_count)
        value -= sum(cost for (word, harmed), cost in IN_THE_WAY.items() if harmed == kind and word in words)
        value -= at.word_cost * max(0, len(words) - at.free_words)
        value -= at.demo_cost * max(0, len(demos) - at.free_demos)
        return min(at.cap, max(at.floor, value))

    def accuracy(self, texts: Mapping[str, str]) -> float:
        """The exact expected accuracy over kinds alike: the ruler candidates are held against, without luck."""
        return sum(self.chance(texts, kind) for kind in KINDS) / len(KINDS)

    def best_without_demos(self) -> float:
        """The best accuracy any choice of rule words reaches without demos."""
        best = 0.0
        for module, kinds in MODULES.items():
            rules = [RULES[kind] for kind in kinds]
            texts = [
                {**self.seed(), module: " ".join(("Solve", *chosen))}
                for size in range(len(rules) + 1)
                for chosen in combinations(rules, size)
            ]
            best += max(sum(self.chance(text, kind) for kind in kinds) for text in texts)
        return best / len(KINDS)

    def feedback(self, texts: Mapping[str, str], kind: str, right: bool) -> str:
        """What a grader would write under an answer."""
        module, rule = MODULE_OF[kind], RULES[kind]
        if right:
            return f"right: kind {kind}, rule {rule}"
        if rule in self.words(texts, module):
            return f"wrong: kind {kind}, though rule {rule} is named; likely chance"
        return f"wrong: kind {kind}, module {module} lacks rule {rule}"


def demos_of(texts: Mapping[str, str]) -> list[tuple[str, bool]]:
    """(kind, whether its answer is right) of each demo."""
    demos = cast("list[dict[str, Any]]", json.loads(texts.get("demos", "[]")))
    return [(str(demo["inputs"]["kind"]), demo["output"] == str(demo["expected"])) for demo in demos]


def questions(count: int, seed: int, part: Part = "train", weights: Sequence[float] | None = None) -> list[Example]:
    """`count` examples with kinds drawn alike (or by `weights`) and answers 0 to 3."""
    rng = stream(seed, "questions")
    chance = None if weights is None else [weight / sum(weights) for weight in weights]
    kinds = rng.choice(len(KINDS), size=count, p=chance)
    answers = rng.integers(CHOICES, size=count)
    return [
        Example(f"q{seed}-{n}", {"kind": KINDS[int(kind)]}, int(answer), part)
        for n, (kind, answer) in enumerate(zip(kinds, answers, strict=True))
    ]
