"""The upstream's key, blacked out of a stream also where it comes in pieces, a few letters an event.

An event is held back while some text that began in it may still turn out to be the key; a key that completes becomes
`[key]` in the event it began in, and nothing in the others. Text is followed place by place: what stands at
`choices[0].delta.content` of one event goes on at the same place of the next that has it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import quote

from harness.model.sse import Event, framed
from harness.records import Json

KEY = "[key]"
SHORTEST = 8
_DEEPEST = 100
_NAME = re.compile(rb"^event:[ ]?([^\r\n]*)", re.MULTILINE)
Place = tuple[str | int, ...]


class Secret:
    """A key, and every way in which an upstream may spell it when it repeats it.

    What is shorter than `SHORTEST` is a word for servers that want none, such as "EMPTY", and is left where it stands.
    """

    def __init__(self, key: str = "") -> None:
        self.key = key
        quoted = json.dumps(key)[1:-1]
        ways = (
            {key, quoted, quoted.replace("/", "\\/"), quote(key, safe=""), quote(key)} if _hidden(key) else set[str]()
        )
        self._ways = sorted((way.encode("utf-8", "surrogatepass") for way in ways), key=len, reverse=True)

    def out_of(self, data: bytes) -> bytes:
        """`data` with `[key]` in its place."""
        for way in self._ways:
            data = data.replace(way, KEY.encode())
        return data


def _hidden(key: str) -> bool:
    return len(key) >= SHORTEST


@dataclass
class _Held:
    """An event that waits, and what has been cut out of it: for each place, (start, end, what stands there)."""

    event: Event
    cuts: dict[Place, list[tuple[int, int, str]]] = field(default_factory=dict[Place, list[tuple[int, int, str]]])

    def raw(self) -> bytes:
        body = self.event.body
        if not self.cuts or body is None:
            return self.event.raw
        name = _NAME.search(self.event.raw)
        laid = cast("Mapping[str, Json]", _cut(dict(body), (), self.cuts))
        return framed(laid, name[1].decode() if name else "")


class Blackout:
    """Events in, their bytes out, a little later. Without a key nothing is held."""

    def __init__(self, key: str) -> None:
        self._key = key if _hidden(key) else ""
        self._held: list[_Held] = []
        # for each place, the letters that may be the key's beginning, each with (event, offset) it came from
        self._open: dict[Place, list[tuple[str, _Held, int]]] = {}

    def feed(self, event: Event) -> Iterator[bytes]:
        """The bytes of the events that can no longer hold a part of the key. Raises ValueError for JSON too deep."""
        if not self._key:
            yield event.raw
            return
        held = _Held(event)
        self._held.append(held)
        if event.body is not None:
            for place, text in texts(dict(event.body)):
                self._follow(place, held, text)
        waiting = {id(one[0][1]) for one in self._open.values() if one}
        while self._held and id(self._held[0]) not in waiting:
            yield self._held.pop(0).raw()

    def rest(self) -> Iterator[bytes]:
        """What is still held at the end of the stream."""
        for held in self._held:
            yield held.raw()
        self._held.clear()
        self._open.clear()

    def _follow(self, place: Place, held: _Held, text: str) -> None:
        letters = [*self._open.get(place, ()), *((letter, held, at) for at, letter in enumerate(text))]
        said = "".join(letter for letter, _, _ in letters)
        begin = 0
        while (found := said.find(self._key, begin)) >= 0:
            _black(place, letters[found : found + len(self._key)])
            begin = found + len(self._key)
        most = min(len(self._key) - 1, len(said) - begin)
        keep = next((size for size in range(most, 0, -1) if said.endswith(self._key[:size])), 0)
        self._open[place] = letters[len(letters) - keep :]


def _black(place: Place, letters: list[tuple[str, _Held, int]]) -> None:
    first = True
    for held in {id(held): held for _, held, _ in letters}.values():
        at = [offset for _, one, offset in letters if one is held]
        held.cuts.setdefault(place, []).append((at[0], at[-1] + 1, KEY if first else ""))
        first = False


def texts(value: Json, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Every text in `value` with its place. Raises ValueError for JSON too deep."""
    if len(place) > _DEEPEST:
        raise ValueError("JSON nested too deep")
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from texts(one, (*place, name))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from texts(one, (*place, number))


def _cut(value: Json, place: Place, cuts: Mapping[Place, list[tuple[int, int, str]]]) -> Json:
    if isinstance(value, str):
        for start, end, laid in reversed(cuts.get(place, [])):
            value = value[:start] + laid + value[end:]
        return value
    if isinstance(value, dict):
        return {name: _cut(one, (*place, name), cuts) for name, one in value.items()}
    if isinstance(value, list):
        return [_cut(one, (*place, number), cuts) for number, one in enumerate(value)]
    return value
