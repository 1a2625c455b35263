"""The toy world's proposing model: reads the sections of a request as a model would, and answers by simple rules.

It is a model in its own right, not a mock of one: it has a temper (`wrong`, the share of its advice that is off) and
can only use what the request tells it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.optimizer.base import Request
from harness.testing.prompt_world import DISTRACTORS, KIND_OF, MODULE_OF, RULES, VOCABULARY

_LACKS = re.compile(r"module (\w+) lacks rule (\w+)")
_ADVICE = re.compile(r"name the rule: ([\w, ]+)")
_RATE = re.compile(r"kind (\w) fails (0\.\d+|1\.0+|0)")
_SHOWN = re.compile(r"(right|wrong): kind (\w)")
_SCORED = re.compile(r"text: (.*)\nscore: (-?[0-9.]+)")


@dataclass(frozen=True, slots=True)
class PromptCritic:
    """`wrong` is the chance that a piece of advice names a word at random instead of what the failures ask for."""

    wrong: float = 0.0

    def answer(self, request: Request, rng: np.random.Generator) -> str:  # noqa: PLR0911  one return a purpose
        """The reply to a request; the same for the same stream."""
        match request.purpose:
            case "critique" | "backward":
                asked = self._asked(request, rng)
                return f"name the rule: {', '.join(asked)}" if asked else "nothing to improve"
            case "edit" | "rewrite":
                return _add(request.section("text"), _advised(request.section("critique")))
            case "reflect" if request.section("prompt"):
                return _unasked(request.section("prompt"))
            case "reflect":
                return _add(request.section("text"), self._asked(request, rng))
            case "paraphrase":
                return _rephrase(request.section("text"), rng)
            case "history":
                return _from_history(request.section("history"), rng)
            case "summarise":
                return _rates(request.section("feedback"))
            case "instruct":
                return _instruct(request, rng)
            case "lesson":
                return "\n".join(f"- name the rule: {word}" for word in self._asked(request, rng))
            case "curate":
                return _curate(request)
            case _:
                return "nothing to say"

    def _asked(self, request: Request, rng: np.random.Generator) -> list[str]:
        """Rules that failures of this module lack, the most lacking first; each may be swapped for a wrong word."""
        module = request.section("module")
        lacking = [word for said, word in _LACKS.findall(request.section("feedback")) if module in ("", said)]
        lacking += [
            w for w in _advised(request.section("downstream")) if w in KIND_OF and module in ("", MODULE_OF[KIND_OF[w]])
        ]
        named = _plain(request.section("text"))
        counts = Counter(word for word in lacking if word not in named)
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        return [
            VOCABULARY[int(rng.integers(len(VOCABULARY)))] if self.wrong and rng.random() < self.wrong else word
            for word in ranked
        ]


def _add(text: str, words: Sequence[str]) -> str:
    fresh = [word for word in words if word not in _plain(text)]
    return f"{text.rstrip('.')} {fresh[0]}" if fresh else text


def _unasked(prompt: str) -> str:
    """The reply to another library's own reflection prompt: the text it fences first, with the rule most lacking."""
    fenced = re.search(r"```\n(.*?)\n```", prompt, re.DOTALL)
    text = fenced.group(1) if fenced else ""
    counts = Counter(word for _, word in _LACKS.findall(prompt))
    return f"```\n{_add(text, sorted(counts, key=lambda word: (-counts[word], word)))}\n```"


def _plain(text: str) -> set[str]:
    return {word.strip(".,:;*-") for word in text.split()}


def _advised(critique: str) -> list[str]:
    """Words a critique names, the most often named first."""
    counts = Counter(word.strip() for line in _ADVICE.findall(critique) for word in line.split(",") if word.strip())
    return sorted((word for word in counts if word in VOCABULARY), key=lambda word: (-counts[word], word))


def _rephrase(text: str, rng: np.random.Generator) -> str:
    """The same rules with another flavour word: it says the same in other words."""
    kept = [word for word in text.split() if word.strip(".") not in DISTRACTORS]
    return " ".join([*kept, DISTRACTORS[int(rng.integers(len(DISTRACTORS)))]])


def _from_history(history: str, rng: np.random.Generator, most: int = 12) -> str:
    """Selection and a random edit: mostly of the best text (last), sometimes of the second best."""
    ranked = [text for text, _ in _SCORED.findall(history)] or ["Solve"]
    draw = rng.random()
    base = ranked[-1] if draw < 0.85 or len(ranked) < 2 else ranked[-2]
    words = base.split()
    fresh = [word for word in VOCABULARY if word not in words]
    if fresh:
        if 0.6 <= draw < 0.85 and len(words) > 1:
            words.pop(int(rng.integers(1, len(words))))
        words.append(fresh[int(rng.integers(len(fresh)))])
    return " ".join(words[:most])


def _rates(feedback: str) -> str:
    seen, failed = Counter[str](), Counter[str]()
    for verdict, kind in _SHOWN.findall(feedback):
        seen[kind] += 1
        failed[kind] += verdict == "wrong"
    return "; ".join(f"kind {kind} fails {failed[kind] / seen[kind]:.3f}" for kind in sorted(seen))


def _instruct(request: Request, rng: np.random.Generator) -> str:
    """One to three rules: of the module when told the program, weighted by failures when told the data."""
    module = request.section("module")
    words = list(VOCABULARY)
    if request.section("program"):
        words = [word for word in RULES.values() if module in ("", MODULE_OF[KIND_OF[word]])]
    weights = np.ones(len(words))
    rates = {kind: float(rate) for kind, rate in _RATE.findall(request.section("data"))}
    if rates and request.section("program"):
        weights = np.array([rates.get(KIND_OF[word], 0.5) + 0.05 for word in words])
    count = int(rng.integers(1, 4))
    picks = [words[int(n)] for n in rng.choice(len(words), size=count, p=weights / weights.sum())]
    if request.section("tip"):
        picks.append(DISTRACTORS[int(rng.integers(len(DISTRACTORS)))])
    return " ".join(["Solve", *dict.fromkeys(picks)])


def _curate(request: Request) -> str:
    """Additions to a playbook as JSON: every advised rule that it does not hold yet."""
    held = _plain(request.section("playbook"))
    fresh = [word for word in _advised(request.section("lessons")) if word not in held]
    return json.dumps([{"op": "add", "text": word} for word in fresh])
