"""The strict parser of `result.json`: the only way a number becomes a score.

Accepted: one ASCII JSON object, at most 16 MiB, without duplicate keys, whose keys are the metric and, optionally,
`items`. Numbers are plain decimals of at most 40 characters, at most 1e100 in size, and in the declared range. Nothing
is coerced.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Never, cast

from harness.untrusted import line

MAX_BYTES = 16 * 1024 * 1024
MAX_ITEMS = 100_000
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_MAX_DIGITS = 40
_MAX_ID = 200
_MAX_SIZE = 1e100  # the statistics square and add up to MAX_ITEMS of them, which must stay finite
GUARD = "guard:"


class ResultRefusedError(ValueError):
    """What the scorer wrote is not a result; the message says why in one line of clean text."""


@dataclass(frozen=True, slots=True)
class Result:
    """A parsed result: the metric, a score per example id if the scorer gave them, and the declared guard metrics."""

    score: float
    items: Mapping[str, float]
    guards: Mapping[str, float] = field(default_factory=dict[str, float])

    def all_items(self) -> dict[str, float]:
        """Items and guard metrics in one table, the latter under `GUARD` and their name."""
        return {**self.items, **{GUARD + name: value for name, value in self.guards.items()}}


def examples(items: Mapping[str, float]) -> dict[str, float]:
    """The scores of examples alone, without guard metrics."""
    return {item: value for item, value in items.items() if not item.startswith(GUARD)}


def parse_result(
    data: bytes, *, metric: str, allowed: tuple[float, float] | None, guards: Collection[str] = ()
) -> Result:
    """Parse one result. `allowed` is the declared closed range; `guards` names the secondary metrics it must hold.

    Raises ResultRefusedError.
    """
    table = _one_object(data)
    unknown = set(table) - {metric, "items", *guards}
    if unknown:
        also = "".join(f", {name!r}" for name in sorted(guards))
        _refuse(f"unknown key {line(sorted(unknown)[0], 40)!r}; only {metric!r}{also} and 'items' are read")
    for name in (metric, *guards):
        if name not in table:
            _refuse(f"the metric {name!r} is missing")
    score = _number(table[metric], metric)
    check_range(score, metric, allowed)
    return Result(score, _items(table.get("items", {})), {name: _number(table[name], name) for name in guards})


def parse_number(text: str, *, metric: str, allowed: tuple[float, float] | None) -> float:
    """One number as plain ASCII decimal text. Raises ResultRefusedError."""
    if len(text) > _MAX_DIGITS or not _NUMBER.fullmatch(text):
        _refuse(f"{metric} is {line(text, 40)!r}, which is not a plain decimal number")
    value = _measurable(text, metric)
    check_range(value, metric, allowed)
    return value


def check_range(value: float, metric: str, allowed: tuple[float, float] | None) -> None:
    """Raise ResultRefusedError unless `value` lies in the declared range."""
    if allowed is not None and not allowed[0] <= value <= allowed[1]:
        _refuse(f"{metric} = {value!r} lies outside the declared range [{allowed[0]!r}, {allowed[1]!r}]")


def _one_object(data: bytes) -> dict[str, Any]:
    if not data.strip():
        _refuse("the result is empty")
    if len(data) > MAX_BYTES:
        _refuse(f"the result has {len(data)} bytes, more than {MAX_BYTES}")
    if not data.isascii():
        _refuse("the result holds bytes that are not ASCII")
    try:
        value = json.loads(
            data.decode("ascii"),  # as text: from bytes it would also read UTF-16 and UTF-32
            object_pairs_hook=_no_duplicates,
            parse_constant=lambda name: _refuse(f"{name} is not a number"),
            parse_float=_decimal,
            parse_int=_decimal,
        )
    except ResultRefusedError:
        raise
    except (ValueError, RecursionError) as error:
        raise ResultRefusedError(f"the result is not one JSON object: {line(str(error), 120)}") from None
    if not isinstance(value, dict):
        _refuse("the result is not a JSON object")
    return cast("dict[str, Any]", value)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        _refuse("the result holds a key twice")
    return table


def _decimal(text: str) -> float:
    if len(text) > _MAX_DIGITS:
        _refuse(f"a number of {len(text)} characters")
    return _measurable(text, line(text, 40))


def _measurable(text: str, name: str) -> float:
    """A finite number that statistics can be made of, without the minus that zero may carry."""
    value = float(text)
    if not math.isfinite(value):
        _refuse(f"{name} is not finite")
    if abs(value) > _MAX_SIZE:
        _refuse(f"{name} is larger than any measurement")
    return value + 0.0


def _number(value: object, name: str) -> float:
    if type(value) is not float:
        _refuse(f"{line(name, 40)} is {type(value).__name__}, not a number")
    return value


def _items(value: object) -> dict[str, float]:
    if not isinstance(value, dict):
        _refuse("items is not an object of id -> number")
    table = cast("dict[str, object]", value)
    if len(table) > MAX_ITEMS:
        _refuse(f"more than {MAX_ITEMS} items")
    for key in table:
        if not 0 < len(key) <= _MAX_ID:
            _refuse(f"an item id of {len(key)} characters")
        if any("\ud800" <= char <= "\udfff" for char in key):
            _refuse("an item id with half a character, which no text can hold")
        if key.startswith(GUARD):
            _refuse(f"an item id that starts with {GUARD!r}, which is kept for guard metrics")
    return {key: _number(score, key) for key, score in table.items()}


def _refuse(message: str) -> Never:
    raise ResultRefusedError(message)
