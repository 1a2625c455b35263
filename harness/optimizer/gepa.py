"""GEPA: reflective evolution with Pareto selection (Agrawal et al., arXiv 2507.19457, Algorithms 1 and 2).

Each proposal takes a parent by Pareto frequency over val examples, one slot round-robin, runs the parent on a train
minibatch, reflects on what went wrong, and accepts the child only if it scores strictly more on the same minibatch;
an accepted child is scored on all of val. Merge joins two descendants of a common ancestor slot by slot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

import anyio
from pydantic import Field

from harness.errors import BudgetError
from harness.optimizer import wording
from harness.optimizer.base import Done, Given, Host, Refusal, Request, Result, Role, Slot, State, Texts
from harness.optimizer.pareto import front, pareto_choice
from harness.optimizer.pool import Pool, score_of
from harness.optimizer.settings import Settings
from harness.optimizer.slots import editable, sample, seed_texts
from harness.optimizer.together import together
from harness.records import Json


class GepaSettings(Settings):
    """`parallel` proposals are in flight at once, `per_step` in a step (0: as many): proposal k reads the pool as it
    stood after proposal k - `parallel`, so that no slot waits for the slowest. `patience` proposals in a row without a
    new candidate end it.

    `full_score` is the score at which an example holds nothing to reflect on (None: never skip).
    """

    minibatch: int = Field(default=3, ge=1)
    select: Literal["pareto", "best"] = "pareto"
    merge_every: int = Field(default=0, ge=0)
    parallel: int = Field(default=1, ge=1)
    per_step: int = Field(default=0, ge=0)
    iterations: int = Field(default=10_000, ge=1)
    patience: int = Field(default=300, ge=1)
    full_score: float | None = None
    temperature: float = Field(default=1.0, ge=0)


class Gepa:
    """Reflective evolution over a Pareto front."""

    name = "gepa"

    def check(self, config: Mapping[str, Json]) -> None:
        """See `Optimizer`."""
        GepaSettings.read(config)

    def needs(self, given: Given, config: Mapping[str, Json]) -> int:
        """See `Foresees`."""
        settings = GepaSettings.read(config)
        editable(given)
        return given.val + _of_step(settings, given.val)

    async def start(self, host: Host, config: Mapping[str, Json]) -> State:
        """Score the seed on val."""
        settings = GepaSettings.read(config)
        pool = Pool(floor=host.floor)
        pool.add(seed_texts(host))
        editable(host)
        pool.record(0, await host.evaluate(pool.texts(0), host.examples("val"), "val"))
        return {"settings": settings.model_dump(), "n": 0, "idle": 0, "seen": pool.fingerprints(), "pool": pool.json()}

    async def step(self, host: Host, state: State) -> State | Done:
        """A step's proposals, committed in order."""
        settings = GepaSettings.read(state["settings"])
        pool = Pool(state["pool"], host.floor)
        if state["n"] >= settings.iterations:
            return Done(state, f"all {settings.iterations} iterations are done", self.nominees(state))
        if state["idle"] >= settings.patience:
            return Done(state, f"{state['idle']} proposals in a row brought nothing new", self.nominees(state))
        first: int = state["n"] + 1
        numbers = range(first, first + max(settings.parallel, settings.per_step))
        if len(numbers) > 1:
            self._check_budget(host, settings, len(numbers))
        seen: list[str] = list(state["seen"])
        added: dict[int, bool] = {}
        sizes = {first - 1: (len(pool), len(seen))}
        committed = {n: anyio.Event() for n in numbers}

        async def one(n: int) -> None:
            before = max(first - 1, n - settings.parallel)
            try:
                if before >= first:
                    await committed[before].wait()
                size, known = sizes[before]
                child = await self._propose(host, settings, Pool(pool.entries[:size], host.floor), seen[:known], n)
                if n > first:
                    await committed[n - 1].wait()
                added[n] = child is not None and child[2] not in seen
                if child is not None and added[n]:
                    pool.record(pool.add(child[0], child[1]), child[3])
                    seen.append(child[2])
            finally:
                sizes[n] = (len(pool), len(seen))
                committed[n].set()

        await together([partial(one, n) for n in numbers])
        idle: int = state["idle"]
        for n in numbers:
            idle = 0 if added[n] else idle + 1
        return {**state, "n": numbers[-1], "idle": idle, "seen": seen, "pool": pool.json()}

    def nominees(self, state: State) -> tuple[Texts, ...]:
        """Every candidate, best val score first."""
        pool = Pool(state["pool"])
        return tuple(pool.texts(number) for number in pool.order())

    def _check_budget(self, host: Host, settings: GepaSettings, proposals: int) -> None:
        """A step's concurrent proposals must all fit, or what is run would depend on timing."""
        left = host.remaining().rollouts
        needed = proposals * _of_one(settings, len(host.examples("val")))
        if left is not None and needed > left:
            raise BudgetError("rollouts", limit=left, used=0, asked=needed)

    async def _propose(
        self, host: Host, settings: GepaSettings, pool: Pool, seen: Sequence[str], n: int
    ) -> tuple[Texts, tuple[int, ...], str, list[Result]] | None:
        """(texts, parents, fingerprint, val results) of an accepted child."""
        merged = self._merge(host, pool, n) if settings.merge_every and n % settings.merge_every == 0 else None
        if merged is not None:
            texts, parents = merged
            child = host.admit(pool.texts(parents[0]), dict(texts), seen)
            if isinstance(child, Refusal):
                return None
        else:
            reflected = await self._reflect(host, settings, pool, seen, n)
            if reflected is None:
                return None
            child, parents = reflected
        results = await host.evaluate(child, host.examples("val"), "val")
        return child, parents, Pool([{"texts": child, "scores": {}}]).fingerprints()[0], results

    async def _reflect(
        self, host: Host, settings: GepaSettings, pool: Pool, seen: Sequence[str], n: int
    ) -> tuple[Texts, tuple[int, ...]] | None:
        parent = self._parent(host, settings, pool, n)
        slots = editable(host)
        slot = slots[(n - 1) % len(slots)]
        texts = pool.texts(parent)
        batch = sample(host.rng("gepa/batch", n), host.examples("train"), settings.minibatch)
        before = await host.evaluate(texts, batch, f"try{n}")
        if settings.full_score is not None and all(
            result.score is not None and result.score >= settings.full_score for result in before
        ):
            return None
        reply = await host.complete(Role.PROPOSES, _reflection(slot, texts, before, n, settings.temperature))
        child = host.admit(texts, {slot.name: reply.text}, seen)
        if isinstance(child, Refusal):
            return None
        after = await host.evaluate(child, batch, f"try{n}")
        if score_of(after, host.floor) > score_of(before, host.floor):
            return child, (parent,)
        return None

    def _parent(self, host: Host, settings: GepaSettings, pool: Pool, n: int) -> int:
        if settings.select == "best":
            return pool.order()[0]
        rows = [pool.on(number, host.examples("val")) for number in range(len(pool))]
        return pareto_choice(rows, host.rng("gepa/parent", n))

    def _merge(self, host: Host, pool: Pool, n: int) -> tuple[Texts, tuple[int, int]] | None:
        """Two members of the front joined over their nearest common ancestor: a slot only one of them changed is taken
        from that one, a slot both changed from the better. None when no pair has an ancestor of its own."""
        rows = [pool.on(number, host.examples("val")) for number in range(len(pool))]
        members = [k for k in front(rows).survivors if k]
        if len(members) < 2:
            members = [k for k in pool.order() if k][:2]
        if len(members) < 2:
            return None
        one, two = sample(host.rng("gepa/merge", n), members, 2)
        ancestor = _common_ancestor(pool, one, two)
        if ancestor is None:
            return None
        better, other = (one, two) if pool.key(one) >= pool.key(two) else (two, one)
        base, mine, theirs = pool.texts(ancestor), pool.texts(better), pool.texts(other)
        joined = {name: theirs[name] if mine[name] == base[name] else mine[name] for name in base}
        return joined, (better, other)


def _of_one(settings: GepaSettings, val: int) -> int:
    """The most rollouts that one proposal takes."""
    return 2 * settings.minibatch + val


def _of_step(settings: GepaSettings, val: int) -> int:
    """The rollouts that a step must have room for."""
    return max(settings.parallel, settings.per_step) * _of_one(settings, val)


def _reflection(slot: Slot, texts: Mapping[str, str], results: Sequence[Result], n: int, temperature: float) -> Request:
    sections = [("module", slot.module), ("text", texts[slot.name]), ("feedback", wording.feedback(results))]
    return wording.request("reflect", sections, tag=f"gepa/{n}", temperature=temperature, slot=slot)


def _common_ancestor(pool: Pool, one: int, two: int) -> int | None:
    """The latest candidate both descend from, if neither descends from the other."""
    ours, theirs = _ancestors(pool, one), _ancestors(pool, two)
    if one in theirs or two in ours:
        return None
    shared = ours & theirs
    return max(shared) if shared else None


def _ancestors(pool: Pool, number: int) -> set[int]:
    found, queue = set[int](), [number]
    while queue:
        for parent in pool.parents(queue.pop()):
            if parent not in found:
                found.add(parent)
                queue.append(parent)
    return found
