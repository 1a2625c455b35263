"""A step that a budget ended before it could say what it found: what it had measured by then is nominated all the same.

The first steps of methods that try many texts at once (OPRO, APE, ProTeGi, bootstrap, MIPRO) can take a whole night's
rollouts; every text of them that was measured to the end is paid for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from harness.optimizer.admit import fingerprint
from harness.optimizer.base import Example, Host, Result, Texts
from harness.optimizer.pool import Pool


class Watched:
    """A host that remembers what one step evaluated; everything else is the host's own."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._pool = Pool(floor=host.floor)
        self._number: dict[str, int] = {}
        self._seed = fingerprint({slot.name: slot.text for slot in host.slots})

    def __getattr__(self, name: str) -> object:
        return getattr(self._host, name)

    async def evaluate(
        self, texts: Mapping[str, str], examples: Sequence[Example], tag: str = "", within: float | None = None
    ) -> list[Result]:
        """See `Host`."""
        known = fingerprint(texts)
        # numbered as they are asked for, whichever is finished first
        number = self._number[known] if known in self._number else self._pool.add(texts)
        self._number[known] = number
        results = await self._host.evaluate(texts, examples, tag, within)
        self._pool.record(number, results)
        return results

    def nominees(self, before: Sequence[Texts]) -> tuple[Texts, ...]:
        """`before`, those of the last finished step, with what this one measured and found better in front.

        A text counts when it was measured on as many examples as any in this step. It stands before the leader when it
        beats the leader's own measurement in this step, or when the leader is the seed and was not measured; behind it
        when there is no such measurement, and nowhere when it is no better.
        """
        widest = max((self._width(number) for number in self._number.values()), default=0)
        whole = [number for number in self._number.values() if widest and self._width(number) == widest]
        leader = before[0] if before else None
        known = None if leader is None else self._number.get(fingerprint(leader))
        measured = known if known in whole else None
        old = {fingerprint(texts) for texts in before} | {self._seed}
        fresh = [n for n in self._pool.order(whole) if fingerprint(self._pool.texts(n)) not in old]
        if measured is not None:
            fresh = [n for n in fresh if self._pool.key(n) > self._pool.key(measured)]
        found = [self._pool.texts(n) for n in fresh]
        ahead = measured is not None or leader is None or fingerprint(leader) == self._seed
        return (*found, *before) if ahead else (*before[:1], *found, *before[1:])

    def _width(self, number: int) -> int:
        return len(self._pool.entries[number]["scores"])


def watched(host: Host) -> tuple[Host, Watched]:
    """(the host to give a step, what it remembers)."""
    watch = Watched(host)
    return cast("Host", watch), watch
