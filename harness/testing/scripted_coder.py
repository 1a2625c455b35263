"""A scripted model for `archives/coder`: it solves more the more its agent has learned, and edits in many ways.

For `ScriptedModel(script=Coder(...))`. Every answer is a pure function of the request, so that runs can be compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

SKILL = "[practised]"
EASY = 3
NOTES = "NOTE = 1"

_LEARN = (
    '<replace path="prompts.py"><old>You are a careful'
    " programmer.</old><new>You are a careful programmer. {skill}</new></replace>\n<done/>"
)
_BREAK = '<replace path="agent.py"><old>def solve():</old><new>def solve(:</new></replace>\n<done/>'
_FORGET = (
    '<replace path="prompts.py"><old>Answer with any of these, nothing is run otherwise:</old>'
    "<new>Answer as you like.</new></replace>\n<done/>"
)
_COMMENT = (
    '<replace path="model.py"><old>MAX_TOKENS = 1024</old><new>MAX_TOKENS = 1024  # enough</new></replace>\n<done/>'
)
_REACH = (
    '<write path="../secret.txt">x</write>\n<write path="notes/plan.txt">a file that may not be there</write>\n<done/>'
)


class Coder:
    """What the model says. `answers` maps a HumanEval prompt to its whole solution."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        self._answers = dict(answers)

    def __call__(self, request: Mapping[str, Any]) -> str:
        """The reply to one request."""
        system = str(request["messages"][0]["content"])
        task = str(request["messages"][1]["content"])
        if "learns something" in system:
            return f"Hypothesis: with more practice more functions are right ({_number(task) % 10_000})."
        if "nothing is run otherwise" not in system:
            return "I would rather talk about it."
        if "# checked" in task and "NOTES.py" in task:
            return f'<replace path="NOTES.py"><old>{NOTES}</old><new>{NOTES}\n# checked</new></replace>\n<done/>'
        if "your own source code" in system:
            return self._edit(task)
        return self._solve(system, task)

    def _solve(self, system: str, task: str) -> str:
        prompt = next((one for one in self._answers if one.strip() in task), None)
        if prompt is None:
            return "I cannot find the task.\n<done/>"
        difficulty = _number(prompt) % 10
        right = difficulty < EASY + system.count(SKILL)
        text = self._answers[prompt] if right else f"{prompt}    return None\n"
        return f'<write path="solution.py">\n{text}</write>\n<done/>'

    def _edit(self, task: str) -> str:
        kind = _number(task) % 10
        if kind == 0:
            return _BREAK
        if kind == 1:
            return _FORGET
        if kind == 2:
            return _COMMENT
        if kind in (3, 4):
            return _REACH
        return _LEARN.format(skill=f"{SKILL} {_number(task) % 10_000}")


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")
