"""A playbook: bullets with a bound on their count and size, no two the same, the least useful dropped first."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from harness.optimizer.admit import normalise

_MOST_ADDED = 100
_MARK = re.compile(r"^[\s\-*•\d.)]+")


class Playbook:
    """Bullets {text, helped, harmed, born}. `most` bullets and `chars` characters are never passed."""

    def __init__(self, bullets: Sequence[Mapping[str, Any]], *, most: int, chars: int) -> None:
        self.bullets = [dict(bullet) for bullet in bullets]
        self.most, self.chars = most, chars

    def add(self, text: str, born: int) -> bool:
        """Whether the bullet was new. The bounds hold afterwards."""
        text = normalise(_MARK.sub("", text))
        if not text or any(_same(text, bullet["text"]) for bullet in self.bullets):
            return False
        self.bullets.append({"text": text, "helped": 0, "harmed": 0, "born": born})
        self._shrink()
        return any(bullet["text"] == text for bullet in self.bullets)

    def credit(self, born: int, gained: bool) -> None:
        """Tell the bullets of one step whether that step helped."""
        for bullet in self.bullets:
            if bullet["born"] == born:
                bullet["helped" if gained else "harmed"] += 1

    def text(self, head: str) -> str:
        """The slot's text: the seed, then a bullet a line."""
        return "\n".join([head.rstrip(), *(f"- {bullet['text']}" for bullet in self.bullets)])

    def _shrink(self) -> None:
        while len(self.bullets) > self.most or sum(len(b["text"]) + 3 for b in self.bullets) > self.chars:
            worst = min(range(len(self.bullets)), key=lambda k: (_worth(self.bullets[k]), self.bullets[k]["born"], k))
            del self.bullets[worst]


def additions(reply: str | None) -> list[str]:
    """The first hundred texts a curator adds: from JSON if the reply holds a list, else from lines with a dash."""
    if reply is None:
        return []
    begin, end = reply.find("["), reply.rfind("]")
    if 0 <= begin < end:
        try:
            items = cast("list[dict[str, Any]]", json.loads(reply[begin : end + 1]))
            return [str(item["text"]) for item in items if "text" in item][:_MOST_ADDED]
        except (ValueError, TypeError, RecursionError):
            pass  # no list of objects after all: read the dashes
    return [line.strip() for line in reply.splitlines() if line.strip().startswith("-")][:_MOST_ADDED]


def _worth(bullet: Mapping[str, Any]) -> int:
    return bullet["helped"] - bullet["harmed"]


def _same(one: str, other: str) -> bool:
    """Equal but for case and punctuation, or one word set inside a nearly equal one."""
    a, b = _words(one), _words(other)
    return a == b or (len(a | b) > 3 and len(a & b) / len(a | b) > 0.85)


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))
