"""Ways to change one knob, and what it becomes on each of them."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.agent import words
from harness.agent.knobs import MAX_INT, Knob, Value
from harness.records import Json

UP, DOWN, FLIP = "up", "down", "flip"
_FIRST_ON = (1e-3, 0.3)
_LARGEST = 1e12
_SMALLEST = 1e-12


@dataclass(frozen=True, slots=True)
class Move:
    """One knob from `old` to `new`; `text` is the new source. `way` is up, down, flip or =choice."""

    knob: Knob
    way: str
    new: Value
    text: str

    @property
    def note(self) -> str:
        """One line for people."""
        return f"{self.knob.path}: {self.knob.name} {self.knob.text} -> {self.text}"

    def memo(self) -> dict[str, Json]:
        """What later asks need to learn from this move."""
        knob = self.knob
        return {
            "knob": knob.id,
            "way": self.way,
            "old": knob.value,
            "new": self.new,
            "was": knob.text,
            "now": self.text,
        }


def ways(knob: Knob) -> tuple[str, ...]:
    """Every direction a knob can go in from where it is."""
    match knob.value:
        case bool():
            return (FLIP,)
        case str():
            return tuple(f"={choice}" for choice in knob.choices)
        case int(value):
            return (UP, DOWN) if value > 1 or value < 0 else (UP,)
        case float(value):
            return (UP, DOWN) if value else (UP,)


def opposite(way: str) -> str | None:
    """The way back of a directed move."""
    return {UP: DOWN, DOWN: UP}.get(way)


def go(knob: Knob, way: str, stride: float, rng: np.random.Generator) -> Move | None:
    """The knob moved by `stride` (natural log units, about 0.2 to 2.5), or None when that leaves it where it is."""
    new = _target(knob, way, stride * rng.uniform(0.7, 1.3), rng)
    if new is None or new == knob.value:
        return None
    text = render(new, knob.text)
    if isinstance(new, float):
        new = float(ast.literal_eval(text))
        if new == knob.value:
            return None
    return Move(knob, way, new, text)


def to(knob: Knob, recorded: Mapping[str, Json]) -> Move | None:
    """The knob set to the value an earlier move of it ended at, or None when it is there or cannot be."""
    new, text = recorded["new"], recorded["now"]
    if new == knob.value or type(new) is not type(knob.value) or not isinstance(text, str):
        return None
    match new, knob.value:
        case str(), str():
            return Move(knob, f"={new}", new, text)
        case bool(), bool():
            return Move(knob, FLIP, new, text)
        case ((int() | float()), (int() | float())):
            return Move(knob, UP if new > knob.value else DOWN, new, text)
        case _:
            return None


def _target(knob: Knob, way: str, stride: float, rng: np.random.Generator) -> Value | None:
    factor = math.exp(stride if way == UP else -stride)
    match knob.value:
        case bool(value):
            return not value
        case str():
            return way.removeprefix("=")
        case int(value):
            return _scaled_int(value, factor)
        case float(value) if value == 0.0:
            low, high = map(math.log, _FIRST_ON)
            return math.exp(rng.uniform(low, high))
        case float(value):
            share = 0.0 < value < 1.0 and (words.is_share(knob.name) or (value >= 0.9 and rng.random() < 0.5))
            return _scaled_share(value, factor) if share else _scaled(value, factor)


def _scaled_int(value: int, factor: float) -> int | None:
    """Up or down in size by the factor, at least by one, keeping the sign; 0 can only grow."""
    size = abs(value)
    grown = round(size * factor)
    grown = max(grown, size + 1) if factor > 1 else max(min(grown, size - 1), 1)
    return None if grown > MAX_INT or grown == size else int(math.copysign(grown, value))


def _scaled(value: float, factor: float) -> float | None:
    grown = value * factor
    return grown if _SMALLEST < abs(grown) < _LARGEST else None


def _scaled_share(value: float, factor: float) -> float | None:
    """The factor applied to the odds, so that 0.9 goes to 0.97 and never past 1."""
    odds = value / (1.0 - value) * factor
    return odds / (1.0 + odds) if _SMALLEST < odds < 1e6 else None


def render(value: Value, like: str) -> str:
    """Source for a value: floats to two significant digits, strings in the quotes of the literal they replace."""
    if isinstance(value, str):
        quote = next((char for char in like if char in "'\""), '"')
        return f"{quote}{value}{quote}"
    if isinstance(value, float):
        return _float_text(value)
    return repr(value)


def _float_text(value: float) -> str:
    near_one = 0.9 <= abs(value) < 1.0
    short = round(value, 1 - math.floor(math.log10(1.0 - abs(value)))) if near_one else float(f"{value:.2g}")
    return repr(float(short))
