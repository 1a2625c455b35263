"""The archive as selection sees it: columns that grow, with child counts and clade sums kept as variants arrive.

A ticket selects from the archive as of an earlier ticket. Variants are therefore announced with their ticket and
enter the columns only when `until` has reached it; tickets select in order, so nothing is ever undone.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.records import Json
from harness.research.select import Floats, Ints

_MANY = 64


@dataclass(frozen=True, slots=True)
class Member:
    """A variant that may be a parent. `score` is larger-is-better or nan; `items` is one score per instance.

    `islands` are those it may be drawn on; none where there is but one.
    """

    id: str
    ticket: int
    parents: tuple[str, ...]
    score: float
    wins: float = 0.0
    losses: float = 0.0
    items: tuple[float, ...] = ()
    stage: int = 0
    islands: tuple[int, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """The member as a ticket's body holds it; what is nothing is left out."""
        table: dict[str, Any] = asdict(self)
        table = {key: list(one) if isinstance(one, tuple) else one for key, one in table.items()}  # pyright: ignore
        table["items"] = [None if math.isnan(one) else one for one in self.items]
        table["score"] = None if math.isnan(self.score) else self.score
        return {key: one for key, one in table.items() if one or key == "score"}


def member_of(table: Mapping[str, Any]) -> Member:
    """The member that `Member.as_json` wrote down."""
    told, items = table.get, table.get("items")
    score = table["score"]
    return Member(
        table["id"],
        told("ticket", 0),
        tuple(told("parents", ())),
        math.nan if score is None else float(score),
        told("wins", 0.0),
        told("losses", 0.0),
        tuple([math.nan if one is None else float(one) for one in items]) if items else (),
        told("stage", 0),
        tuple(told("islands", ())),
    )


@dataclass(frozen=True, slots=True)
class Change:
    """What one ticket did to the archive: a new member, more evidence for an old one, members that left."""

    ticket: int
    member: Member | None = None
    again: tuple[Member, ...] = ()
    gone: tuple[str, ...] = ()


def change_of(body: Mapping[str, Any]) -> Change | None:
    """What a ticket's body says it did to the archive of parents; None outside archive mode."""
    made = body.get("archive")
    if made is None:
        return None
    member = member_of(made["member"]) if made.get("member") else None
    again = tuple([member_of(one) for one in made["again"]]) if "again" in made else ()
    return Change(body["ticket"], member, again, tuple(made.get("gone", ())))


@dataclass
class Population:
    """The columns of `select.Pool`; `Member` i was the i-th to enter.

    A member that left (a capped archive) keeps its place, its children and its clade, and loses its score, so that
    no rule selects it while anybody else has one.
    """

    ids: list[str] = field(default_factory=list[str])
    revision: int = 0
    members: dict[str, Member] = field(default_factory=dict[str, Member])
    _place: dict[str, int] = field(default_factory=dict[str, int])
    _parents: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    _waiting: deque[Change] = field(default_factory=deque[Change])
    _columns: NDArray[np.float64] = field(default_factory=lambda: np.zeros((6, 64)))
    _items: NDArray[np.float64] = field(default_factory=lambda: np.full((64, 0), math.nan))

    def on(self, island: int) -> Island:
        """The members that may be drawn on an island."""
        places = [place for place, name in enumerate(self.ids) if island in self.members[name].islands]
        return Island(self, np.array(places, np.int64))

    def nearest(self, one: str, other: str) -> str | None:
        """The nearest common ancestor of two variants; None when one descends from the other."""
        a, b = self._place[one], self._place[other]
        above, beyond = {a, *self.ancestors(a)}, {b, *self.ancestors(b)}
        if a in beyond or b in above:
            return None
        return self.ids[max(above & beyond)]

    @property
    def scores(self) -> Floats:
        return self._columns[0, : len(self.ids)]

    @property
    def children(self) -> Ints:
        return self._columns[1, : len(self.ids)].astype(np.int64)

    @property
    def wins(self) -> Floats:
        return self._columns[2, : len(self.ids)]

    @property
    def losses(self) -> Floats:
        return self._columns[3, : len(self.ids)]

    @property
    def clade_wins(self) -> Floats:
        return self._columns[4, : len(self.ids)]

    @property
    def clade_losses(self) -> Floats:
        return self._columns[5, : len(self.ids)]

    @property
    def table(self) -> Floats:
        return self._items[: len(self.ids)]

    def announce(self, change: Change) -> None:
        """Note what a ticket did; it counts from `until(change.ticket)` on."""
        self._waiting.append(change)

    def until(self, ticket: int) -> Population:
        """The population as of `ticket`. Later calls may only ask for the same or a later one."""
        entering: list[Member] = []
        while self._waiting and self._waiting[0].ticket <= ticket:
            change = self._waiting.popleft()
            if change.member is not None:
                entering.append(change.member)
            if change.again or change.gone:
                self._enter(entering)
                entering = []
                self._alter(change)
        self._enter(entering)
        return self

    def _alter(self, change: Change) -> None:
        for member in change.again:
            self._renew(member)
            self.members[member.id] = member
        for name in change.gone:
            self._columns[0, self._place[name]] = math.nan
            self._items[self._place[name]] = math.nan
        self.revision += 1

    def ancestors(self, place: int) -> Sequence[int]:
        """Every ancestor once, also through merges."""
        line: list[int] = []
        parents = self._parents[place]
        while len(parents) == 1:
            line.append(parents[0])
            parents = self._parents[parents[0]]
        found = dict.fromkeys(line)
        ahead = list(parents)
        while ahead:
            one = ahead.pop()
            if one not in found:
                found[one] = None
                ahead += self._parents[one]
        return list(found) if parents else line

    def _enter(self, members: Sequence[Member]) -> None:
        """Sums are taken in the order of tickets however many enter at once, so that every bit of them is the same."""
        if not members:
            return
        first, count = len(self.ids), len(self.ids) + len(members)
        self._grow(count - 1, max(len(one.items) for one in members))
        for place, member in enumerate(members, start=first):
            self.ids.append(member.id)
            self._place[member.id] = place
            self._parents.append(tuple(dict.fromkeys([self._place[name] for name in member.parents])))
            self.members[member.id] = member
        fresh = np.array([(one.score, 0.0, one.wins, one.losses, one.wins, one.losses) for one in members])
        self._columns[:, first:count] = fresh.T
        sums: list[Any] = [self._columns[row] for row in (1, 4, 5)]
        if len(members) > _MANY:
            sums = [one[:count].tolist() for one in sums]  # a list's numbers are quicker to reach one by one
        self._add_up(first, members, *sums)
        if len(members) > _MANY:
            for row, one in zip((1, 4, 5), sums, strict=True):
                self._columns[row, :count] = one
        for place, member in enumerate(members, start=first):
            self._set_items(place, member.items)

    def _add_up(self, first: int, members: Sequence[Member], children: Any, wins: Any, losses: Any) -> None:  # noqa: ANN401 - columns or lists
        for place, member in enumerate(members, start=first):
            for parent in self._parents[place]:
                children[parent] += 1.0
            if member.wins or member.losses:
                for above in self.ancestors(place):
                    wins[above] += member.wins
                    losses[above] += member.losses

    def _renew(self, member: Member) -> None:
        """More evidence for a member that is already there; its totals are given, not the difference."""
        place = self._place[member.id]
        wins = member.wins - self._columns[2, place]
        losses = member.losses - self._columns[3, place]
        line = [place, *self.ancestors(place)]
        self._columns[4, line] += wins
        self._columns[5, line] += losses
        self._columns[2, place], self._columns[3, place] = member.wins, member.losses
        self._columns[0, place] = member.score
        self._set_items(place, member.items)

    def _set_items(self, place: int, items: Sequence[float]) -> None:
        if items:
            self._items[place, : len(items)] = items

    def _grow(self, place: int, instances: int) -> None:
        while place >= self._columns.shape[1]:
            self._columns = np.concatenate([self._columns, np.zeros_like(self._columns)], axis=1)
        rows, width = self._items.shape
        if place >= rows or instances > width:
            wider = np.full((max(rows, self._columns.shape[1]), max(width, instances)), math.nan)
            wider[:rows, :width] = self._items
            self._items = wider


@dataclass(frozen=True, slots=True)
class Island:
    """A part of a population as a `select.Pool`; its i-th row is the population's `places[i]`-th."""

    of: Population
    places: Ints

    @property
    def revision(self) -> int:
        return self.of.revision

    @property
    def scores(self) -> Floats:
        return self.of.scores[self.places]

    @property
    def children(self) -> Ints:
        return self.of.children[self.places]

    @property
    def wins(self) -> Floats:
        return self.of.wins[self.places]

    @property
    def losses(self) -> Floats:
        return self.of.losses[self.places]

    @property
    def clade_wins(self) -> Floats:
        return self.of.clade_wins[self.places]

    @property
    def clade_losses(self) -> Floats:
        return self.of.clade_losses[self.places]

    @property
    def table(self) -> Floats:
        return self.of.table[self.places]
