"""The same cheats where nothing guards: one box with everything in it, a forgiving parser, and no hidden examples.

This is how many loops judge: the candidate's own tree is laid over the eval, whatever it prints last is the score, and
a crash is written down as zero. It still runs in a box, because it is the user's machine.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from harness.box.base import DATA, EVAL, LABELS, RESULT, WORK, Box, Boxes, BoxSpec, Command
from harness.errors import BoxError
from harness.records import Completed, Split
from harness.repo.door import apply_changes
from harness.repo.names import flaw
from harness.research.redteam.base import Attack, Target
from harness.tree import Entry

_MAX = 2**20


@dataclass(frozen=True, slots=True)
class Taken:
    """What an unguarded loop would have written down, and whether it would have called it the best so far."""

    reported: float | None
    kept: bool


@dataclass(frozen=True, slots=True)
class Naive:
    """A loop without a guard."""

    target: Target
    boxes: Boxes
    spec: BoxSpec

    async def take(self, attack: Attack) -> Taken:
        """Run the attack where it may do anything that a box allows."""
        proposal = attack.propose(self.target)
        if proposal is None:
            return Taken(None, False)
        entries = proposal.tree if proposal.tree is not None else apply_changes(self.target.root, proposal.changes)
        reported: float | None = None
        with contextlib.suppress(BoxError):
            async with self.boxes.open(self.spec) as box:
                reported = await self._run(box, _writable(entries))
        reported = 0.0 if reported is None else reported  # as the crash rows of such loops say
        better = reported < self.target.honest if self._minimised else not reported <= self.target.honest
        return Taken(reported, better or math.isnan(reported))

    @property
    def _minimised(self) -> bool:
        return self.target.subject.file.eval.direction == "min"

    async def _run(self, box: Box, entries: list[Entry]) -> float | None:
        subject, settings = self.target.subject, self.target.subject.file.eval
        await box.put(entries, WORK)
        await box.put([entry for entry in subject.scorer.entries() if not _has(entries, entry.path)], WORK)
        await box.put(subject.scorer.entries(), EVAL)
        data = subject.splits.get(Split.VISIBLE)
        if data is not None:
            await box.put(data.inputs.entries(), DATA)
            await box.put(data.labels.entries(), LABELS)
        env = {**settings.env, "STROP_SEED": "0"}
        said = await _exec(box, Command(settings.run, settings.timeout_s, WORK, env))
        if settings.mode == "split" and settings.score is not None and not await _last(box, settings.metric):
            said += await _exec(box, Command(settings.score, settings.timeout_s, WORK, env))
        written = await _last(box, settings.metric)
        return written if written is not None else _number(said, settings.metric)


def _has(entries: Iterable[Entry], path: bytes) -> bool:
    return any(entry.path == path for entry in entries)


def _writable(entries: Iterable[Entry]) -> list[Entry]:
    """What a plain copy would have put into the folder."""
    return [
        replace(entry, kind="file", links=1)
        for entry in list(entries)[:5000]
        if entry.kind in ("file", "hardlink") and flaw(entry.path, depth=30) is None and len(entry.data) < 16 * _MAX
    ]


async def _exec(box: Box, command: Command) -> bytes:
    done: Completed = await box.exec(command)
    return done.stdout


async def _last(box: Box, metric: str) -> float | None:
    found = await box.get(RESULT, max_bytes=_MAX)
    texts = [entry.data for entry in found if entry.kind == "file"]
    return _number(texts[-1], metric) if texts else None


def _number(text: bytes, metric: str) -> float | None:
    """The last number that is called `metric`, as forgiving as most."""
    said = text.decode("utf-8", "replace")
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return float(json.loads(said)[metric])
    found = re.findall(rf'"?{re.escape(metric)}"?\s*[:=]\s*([^\s,}}]+)', said)
    for word in reversed(found):
        with contextlib.suppress(ValueError, OverflowError):
            return float(word)
    return None
