"""What an optimizer is told of a chat completion: its text, or why there is none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from harness.model.faults import refusal
from harness.optimizer.base import Reply, Usage
from harness.records import Reply as Answer

CUT_OFF = "cut off at its length limit"
MOST_TEXT = 2_000_000
_THOUGHT, _THOUGHTS_END = "<think>", "</think>"


def read_chat(answer: Answer) -> Reply:
    """A chat completion's text; None when there is none, or when it was cut off before its end.

    Thoughts that a model leaves in its text are no part of it.
    """
    if answer.status >= 400:
        return Reply(None, refusal(answer))
    try:
        whole: Any = json.loads(answer.body)
        choice: Any = whole["choices"][0]
        text: Any = choice["message"]["content"]
        spent: Mapping[str, Any] = whole.get("usage") or {}
        usage = Usage(int(spent.get("prompt_tokens") or 0), int(spent.get("completion_tokens") or 0))
        cut = choice.get("finish_reason") == "length"
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
        return Reply(None, f"status {answer.status}: no completion in the reply")
    if cut:
        return Reply(None, CUT_OFF, usage)
    if not isinstance(text, str) or not text.strip():
        return Reply(None, "an empty reply", usage)
    if len(text) > MOST_TEXT:
        return Reply(None, f"a text of more than {MOST_TEXT} characters", usage)
    said = without_thoughts(text)
    return Reply(said, "", usage) if said.strip() else Reply(None, "thoughts and nothing after them", usage)


def without_thoughts(text: str) -> str:
    """`text` without what stands up to the end of its thoughts; nothing where they have no end."""
    before, mark, after = text.rpartition(_THOUGHTS_END)
    if mark and (_THOUGHT not in before or before.lstrip().startswith(_THOUGHT)):
        return after.strip()
    return "" if text.lstrip().startswith(_THOUGHT) else text
