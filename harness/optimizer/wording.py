"""The requests optimizers make of a model: purposes, sections and one sentence each. One place, so they can be read.

Text that programs, graders or models wrote is untrusted: it enters only as the body of a named section, with the
section's own markers taken out of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.optimizer.base import Request, Result, Slot
from harness.records import Status
from harness.untrusted import line

_LONGEST = 700
_MARKER = re.compile(r"</?(section|ask)\b", re.IGNORECASE)

ASKS = {
    "critique": "Say what in the text leads to the failures shown, and what it should say. Do not write the new text.",
    "edit": "Rewrite the text so that it meets the critique. Answer with the whole new text and nothing else.",
    "reflect": "Find what the text lacks, judging by the feedback, and answer with the whole improved text only.",
    "paraphrase": "Say the same in other words. Answer with the whole new text and nothing else.",
    "history": "Write a text that scores higher than all of these. Answer with the text and nothing else.",
    "summarise": "Summarise what kinds of example there are and how often each goes wrong.",
    "instruct": "Write an instruction for this module. Answer with the instruction and nothing else.",
    "backward": "Given the loss and what follows downstream, say how this text should change. Do not write it.",
    "rewrite": "Rewrite the text along the critique. Answer with the whole new text and nothing else.",
    "lesson": "List what should be remembered from these runs, one lesson a line, each starting with a dash.",
    "curate": 'Merge the lessons into the playbook. Answer with a JSON list of {"op": "add", "text": ...} only.',
    "describe": "Describe what this program does, from its texts, in two sentences.",
}


def request(
    purpose: str, sections: Sequence[tuple[str, str]], *, tag: str, temperature: float = 1.0, slot: Slot | None = None
) -> Request:
    """A request of that purpose; `slot` adds what must be kept in a new text."""
    keep = ""
    if slot is not None and slot.required:
        keep = " Keep these placeholders as they stand: " + ", ".join(f"{{{name}}}" for name in slot.required) + "."
    limit = f" At most {slot.max_chars} characters." if slot is not None else ""
    kept = tuple((name, text) for name, text in sections if text)
    return Request(purpose, kept, ASKS[purpose] + keep + limit, tag, temperature)


def render_request(asked: Request) -> str:
    """The request as one prompt for a chat model."""
    parts = [f'<section name="{name}">\n{_MARKER.sub("<", text)}\n</section>' for name, text in asked.sections]
    return "\n\n".join([*parts, asked.ask])


def feedback(results: Sequence[Result], *, only_failures: bool = False, full_score: float | None = None) -> str:
    """Rollouts as lines a model can learn from, the worst first; failures to run are said as such."""
    chosen = [
        result
        for result in results
        if result.status is not Status.INFRA_ERROR
        and not (only_failures and full_score is not None and result.score is not None and result.score >= full_score)
    ]
    chosen.sort(key=lambda result: -1e300 if result.score is None else result.score)
    return "\n".join(_line(result) for result in chosen)


def _line(result: Result) -> str:
    said = "; ".join(f"{call.module}: {call.given} -> {call.said}" for call in result.trace)
    head = f"{result.status.value}" if result.score is None else f"score {result.score:g}"
    return f"[{head}] {_one_line(said)} | {_one_line(result.feedback)}"


def _one_line(text: str) -> str:
    """Its beginning, encoded: nothing in it can look like another row, or like nothing at all."""
    return line(text[:_LONGEST], _LONGEST)
