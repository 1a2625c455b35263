"""A text's instruction, and the frame of placeholder paragraphs around it.

Libraries that keep instructions and inputs apart, and small models, drop placeholders that they see no use for. A seed
whose placeholders stand in paragraphs of their own is an instruction in a frame, and only the instruction is theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.optimizer.base import Slot
from harness.optimizer.template import TemplateRefusedError, placeholders


@dataclass(frozen=True, slots=True)
class Frame:
    """`before` and `after` stand around the instruction, with their blank lines; empty where there is no frame."""

    before: str = ""
    after: str = ""

    def around(self, instruction: str) -> str:
        """The whole text."""
        return f"{self.before}{instruction.strip()}{self.after}" if self.before or self.after else instruction

    def within(self, text: str) -> str:
        """The instruction of a text in this frame; the text itself when it is not."""
        inner = text.removeprefix(self.before)
        return inner.removesuffix(self.after) if text.startswith(self.before) and inner.endswith(self.after) else text


def frame_of(slot: Slot) -> Frame:
    """The frame of a slot's seed: its paragraphs with required placeholders, where they stand around the rest."""
    if not slot.required or slot.engine == "raw":
        return Frame()
    parts = slot.text.split("\n\n")
    try:
        framed = [bool(placeholders(part, slot.engine, set(slot.required))) for part in parts]
    except TemplateRefusedError:
        return Frame()
    plain = [number for number, is_framed in enumerate(framed) if not is_framed and parts[number].strip()]
    if not plain or any(framed[plain[0] : plain[-1] + 1]):
        return Frame()
    before, after = parts[: plain[0]], parts[plain[-1] + 1 :]
    return Frame("".join(f"{part}\n\n" for part in before), "".join(f"\n\n{part}" for part in after))
