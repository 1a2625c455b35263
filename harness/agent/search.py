"""The search agent: no model, only the literals of the editable Python files and what the history says of them."""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Iterator, Mapping
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.agent import knobs, source
from harness.agent.base import Ask, Proposal
from harness.agent.credit import Credit, near_misses
from harness.agent.knobs import Knob
from harness.agent.moves import Move, go, to, ways
from harness.agent.surrogate import Surrogate
from harness.errors import InputError
from harness.records import Json
from harness.tree import Tree

_DRAWS = 60
_BLIND = 0.1  # proposals that ask no model, so that a wrong one cannot blind the search
_SWEEP = (0.1, 0.3, 0.7, 1.5)


class SearchConfig(BaseModel):
    """`[policy.agent.config]` of the search agent.

    `only` and `skip` are shell patterns over a knob's name (LEARNING_RATE, Config.width) or its whole id;
    `pairs` is the share of proposals that move two knobs; `stride` the first step in natural log units;
    `plateau` how many tickets without a keep before steps grow; `min_weight` how much a literal must look
    like a setting.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    only: tuple[str, ...] = ("*",)
    skip: tuple[str, ...] = ()
    pairs: float = Field(default=0.25, ge=0, le=1)
    stride: float = Field(default=1.1, gt=0, le=5)
    plateau: int = Field(default=12, ge=1)
    min_weight: float = Field(default=0.05, ge=0, le=1)
    learn: Literal["model", "bandit", "none"] = "model"


class SearchAgent:
    """Mutates one or two literals of the parent; see `Agent`."""

    name = "search"

    def __init__(self, config: Mapping[str, object] | None = None) -> None:
        try:
            self._config = SearchConfig.model_validate(dict(config or {}))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(["policy.agent.config", *map(str, first["loc"])])
            known = ", ".join(sorted(SearchConfig.model_fields))
            raise InputError(first["msg"], key=key, mend=f"the search agent knows {known}") from None

    async def propose(self, ask: Ask) -> Proposal | None:
        """A child with one or two literals changed, never a tree this history has seen; None when there is none.

        Tickets under way at once do not see each other, so each looks first among the trees whose digest is its own
        modulo their number: no two of them can meet there.
        """
        found = self._knobs(ask)
        if not found:
            return None
        credit = Credit(ask.history if self._config.learn != "none" else (), ask.direction, self._config.stride)
        credit.seen |= Credit(ask.history, ask.direction, self._config.stride).seen
        digests = {path: hashlib.sha256(file.data).digest() for path, file in ask.tree.items()}
        parent = _mark(digests)
        credit.seen.add(parent)
        elsewhere: Proposal | None = None
        for moves in self._candidates(ask, found, credit):
            changes = _changes(ask.tree, moves)
            if changes is None:
                continue
            mark = _mark(digests | {path: hashlib.sha256(data).digest() for path, data in changes.items()})
            if mark not in credit.seen:
                memo: dict[str, Json] = {"from": parent, "tree": mark, "moves": [move.memo() for move in moves]}
                child = Proposal(changes=dict(changes), note="; ".join(move.note for move in moves), memo=memo)
                if (int(mark, 16) - ask.ticket) % ask.in_flight == 0:
                    return child
                elsewhere = elsewhere or child
        return elsewhere

    def _knobs(self, ask: Ask) -> list[Knob]:
        found: list[Knob] = []
        for path, file in ask.tree.items():
            if path.endswith(".py") and ask.is_editable(path) and (parsed := source.parse(file.data)):
                found += [knob for knob in knobs.find(path, parsed) if self._wanted(knob) and ways(knob)]
        return found

    def _wanted(self, knob: Knob) -> bool:
        def named(patterns: tuple[str, ...]) -> bool:
            return any(fnmatch.fnmatchcase(text, one) for one in patterns for text in (knob.name, knob.id))

        return knob.weight >= self._config.min_weight and named(self._config.only) and not named(self._config.skip)

    def _candidates(self, ask: Ask, found: list[Knob], credit: Credit) -> Iterator[list[Move]]:
        """Sets of moves in the order they should be tried: by belief, then every single step there is."""
        rng = ask.rng
        drawn = [moves for _ in range(_DRAWS) if (moves := self._draw(found, credit, rng))]
        if self._config.learn == "model" and rng.random() >= _BLIND:
            drawn = self._ranked(ask, found, [*drawn, *self._wide(found, rng), *self._again(ask, found)]) or drawn
        yield from drawn
        every: list[tuple[Knob, str, float]] = [
            (knob, way, far) for far in _SWEEP for knob in found for way in ways(knob)
        ]
        order = [int(place) for place in rng.permutation(len(every))]
        for knob, way, stride in (every[place] for place in order):
            if move := go(knob, way, stride, rng):
                yield [move]

    def _ranked(self, ask: Ask, found: list[Knob], pool: list[list[Move]]) -> list[list[Move]]:
        model = Surrogate(found, ask.history, ask.parent.id, ask.parent.score, ask.direction)
        if not model.ready or not pool:
            return []
        hopes = model.judge([{move.knob.id: move.new for move in moves} for moves in pool], ask.rng.uniform(0.0, 1.5))
        return [pool[place] for place in sorted(range(len(pool)), key=lambda place: (-hopes[place], place))]

    def _wide(self, found: list[Knob], rng: np.random.Generator) -> list[list[Move]]:
        """Steps of any size on one to three knobs, drawn by how much each looks like a setting."""
        weights = np.array([knob.weight for knob in found])
        pool: list[list[Move]] = []
        for _ in range(_DRAWS):
            count = min(int(rng.integers(1, 4)), len(found))
            chosen = [found[int(place)] for place in rng.choice(len(found), count, False, weights / weights.sum())]
            steps = [go(knob, str(rng.choice(ways(knob))), rng.uniform(0.2, 2.3), rng) for knob in chosen]
            pool.append([move for move in steps if move])
        return [moves for moves in pool if moves]

    def _again(self, ask: Ask, found: list[Knob]) -> list[list[Move]]:
        """Moves that helped without being kept, made from here, one and two attempts at a time."""
        knobs_now = {knob.id: knob for knob in found}
        good = [
            [to(knobs_now[m["knob"]], m) for m in helped if m["knob"] in knobs_now]
            for helped in near_misses(ask.history, ask.direction)
        ]
        single = [[move for move in moves if move] for moves in good]
        pairs = [[*one, *two] for place, one in enumerate(single) for two in single[:place]]
        return [moves for moves in [*single, *pairs] if moves and len({move.knob.id for move in moves}) == len(moves)]

    def _draw(self, found: list[Knob], credit: Credit, rng: np.random.Generator) -> list[Move]:
        far = credit.since_kept >= self._config.plateau and rng.random() < 0.4
        count = 1 + (rng.random() < (0.6 if far else self._config.pairs))
        ranked: dict[str, tuple[float, Knob, str]] = {}
        for knob in found:
            for way in ways(knob):
                arm = credit.arm(knob.id, way)
                hope = knob.weight * rng.beta(1.0 + arm.paid, 1.0 + arm.failed)
                if hope > ranked.get(knob.id, (-1.0,))[0]:
                    ranked[knob.id] = (hope, knob, way)
        best = sorted(ranked.values(), key=lambda one: -one[0])[:count]
        moves: list[Move] = []
        for _, knob, way in best:
            stride = credit.arm(knob.id, way).stride * (2.0 if far else 1.0)
            if move := go(knob, way, stride, rng):
                moves.append(_worded(move, credit))
        return moves


def _worded(move: Move, credit: Credit) -> Move:
    """A value that was in the source before is written as it was then, so that a way back is seen as one."""
    text = credit.texts.get((move.knob.id, repr(move.new)), move.text)
    return Move(move.knob, move.way, move.new, text)


def _changes(tree: Tree, moves: list[Move]) -> dict[str, bytes] | None:
    """The files of `tree` with `moves` made; None when one would not parse."""
    changed: dict[str, bytes] = {}
    for path in sorted({move.knob.path for move in moves}):
        edits = [source.Edit(move.knob.start, move.knob.end, move.text) for move in moves if move.knob.path == path]
        data = source.apply(tree[path].data, edits)
        if source.parse(data) is None:
            return None
        changed[path] = data
    return changed


def _mark(digests: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    for path, digest in sorted(digests.items()):
        whole.update(path.encode() + b"\0" + digest)
    return whole.hexdigest()[:32]
