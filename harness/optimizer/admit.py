"""What an edit must pass before a rollout is spent on it: whole, clean, renderable, with its placeholders, and new."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Container, Mapping, Sequence

from harness.optimizer.base import Example, Refusal, Slot, Texts
from harness.optimizer.frame import Frame, frame_of
from harness.optimizer.template import TemplateRefusedError, placeholders, render

_OPEN_FENCE = re.compile(r"(?m)^[ \t]*(`{3,}|~{3,})[^\n`]*$")
_TAGS = ("prompt", "text", "instruction", "new_prompt", "answer")
_PREAMBLE = re.compile(
    r"(?is)\A\s*(?:(?:sure|certainly|of course|okay|ok|absolutely|great)\b[^\n]{0,80}[!.,:]\s*)?"
    r"(?:(?:here(?:'s| is| are)|below is|this is)\b[^\n]{0,120}:\s*\n+"
    r"|\*{0,2}(?:the )?(?:new|improved|revised|updated|final|rewritten)\b[^\n]{0,60}"
    r"\b(?:prompt|instructions?|version|text)\b\*{0,2}:\*{0,2}\s*)"
)
_MOST_WRAPPING = 20_000  # what may stand around a prompt in a reply: thoughts, preamble, remarks
TRIED = "the same as a candidate already tried"
_QUOTES = {'"': '"', "“": "”", "'": "'"}


def fingerprint(texts: Mapping[str, str]) -> str:
    """A digest that is equal for candidates that differ only in white space or Unicode form."""
    parts = [f"{name}\x1f{normalise(text)}" for name, text in sorted(texts.items())]
    return hashlib.sha256("\x1e".join(parts).encode()).hexdigest()[:24]


def normalise(text: str) -> str:
    """NFKC, runs of white space as one blank, ends trimmed."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def unwrap(text: str) -> str:
    """The prompt itself out of a model's reply: without preamble, outer quotes, tags or one code fence around it all.

    A fence inside a longer prompt is the prompt's own and stays.
    """
    text = text.strip()
    tagged = _tagged(text)
    if tagged is not None:
        return unwrap(tagged)
    without = _PREAMBLE.sub("", text, count=1).strip()
    fenced = _fenced(without)
    if fenced is not None and _only_talk(fenced[0]) and _only_talk(fenced[2]):
        return fenced[1].strip()
    if without and without[0] in _QUOTES and without[-1] == _QUOTES[without[0]] and without[0] not in without[1:-1]:
        return without[1:-1].strip()
    return without


def admit(
    slots: Sequence[Slot],
    examples: Sequence[Example],
    parent: Mapping[str, str],
    edits: Mapping[str, str | None],
    seen: Container[str],
) -> Texts | Refusal:
    """`parent` with `edits` laid over it, or the first reason why not. Pure."""
    by_name = {slot.name: slot for slot in slots}
    child = dict(parent)
    for name, raw in edits.items():
        slot = by_name.get(name)
        if slot is None:
            return Refusal(f"there is no slot called {name!r}")
        if slot.frozen and raw != parent[name]:
            return Refusal(f"slot {name!r} is frozen")
        if raw is None:
            return Refusal("the model gave no text")
        # one that no unwrapping could save is not even read
        text = raw if raw == parent[name] or len(raw) > slot.max_chars + _MOST_WRAPPING else _edit(slot, raw)
        fault = _fault(slot, text, examples)
        if fault:
            return Refusal(f"{name}: {fault}")
        child[name] = text
    if fingerprint(child) in seen:
        return Refusal(TRIED)
    return child


def _edit(slot: Slot, raw: str) -> str:
    return raw if slot.kind == "demos" else refit(slot, unwrap(raw))


def refit(slot: Slot, text: str) -> str:
    """A new instruction that left out its whole frame of placeholder paragraphs, back in it; any other text as it is.

    A small model forgets what it has no use for; where the seed keeps placeholders apart, nothing is lost by that.
    """
    frame = frame_of(slot)
    if not text.strip() or frame == Frame():
        return text
    try:
        kept = placeholders(text, slot.engine, set(slot.required)) & set(slot.required)
    except TemplateRefusedError:
        return text
    return text if kept else frame.around(text)


def _tagged(text: str) -> str | None:
    """What the first pair of tags holds. Linear, as `_fenced` is: a reply may be long and full of openings."""
    found: list[tuple[int, str]] = []
    for name in _TAGS:
        begin = text.find(f"<{name}>")
        end = -1 if begin < 0 else text.find(f"</{name}>", begin)
        if end >= 0:
            found.append((begin, text[begin + len(name) + 2 : end]))
    if not found:
        return None
    return min(found)[1].removeprefix("\n").removesuffix("\n")


def _fenced(text: str) -> tuple[str, str, str] | None:
    """(before, within, after) the first fence that is closed."""
    rows = text.split("\n")
    opened: dict[str, int] = {}
    closed: dict[str, int] = {}
    for number, row in enumerate(rows):
        mark = _OPEN_FENCE.match(row)
        if mark is None:
            continue
        if row.strip(" \t") == mark[1] and mark[1] in opened:
            closed.setdefault(mark[1], number)
        opened.setdefault(mark[1], number)
    if not closed:
        return None
    first = min(closed, key=lambda mark: opened[mark])
    begin, end = opened[first], closed[first]
    return "\n".join(rows[:begin]), "\n".join(rows[begin + 1 : end]), "\n".join(rows[end + 1 :])


def seed_fault(slot: Slot, examples: Sequence[Example]) -> str:
    """Why a slot's own seed could not stay as it is; an empty one may be a start."""
    return _fault(slot, slot.text, examples) if slot.text.strip() else ""


def _fault(slot: Slot, text: str, examples: Sequence[Example]) -> str:  # noqa: PLR0911  one return a fault
    if slot.kind == "demos":
        return _demo_fault(slot, text)
    if not text.strip():
        return "empty"
    if len(text) > slot.max_chars:
        return f"{len(text)} characters, more than {slot.max_chars}"
    if len(_OPEN_FENCE.findall(text)) % 2:
        return "a code fence is left open: the reply was cut off"
    if "\x00" in text:
        return "holds a NUL"
    known = {name for example in examples for name in example.inputs} | set(slot.required)
    try:
        missing = sorted(set(slot.required) - placeholders(text, slot.engine, known))
        if missing:
            return f"drops the placeholder {missing[0]!r}"
        for example in examples:
            render(text, slot.engine, example.inputs)
    except TemplateRefusedError as error:
        return str(error)
    return ""


def _demo_fault(slot: Slot, text: str) -> str:
    try:
        demos = json.loads(text)
    except ValueError:
        return "demos are not JSON"
    if not isinstance(demos, list):
        return "demos are not a list"
    return f"{len(text)} characters, more than {slot.max_chars}" if len(text) > slot.max_chars else ""


def _only_talk(text: str) -> bool:
    """Whether what stands around a fence is a remark and not a part of the prompt."""
    return len(text.split()) <= 25 and "{" not in text
