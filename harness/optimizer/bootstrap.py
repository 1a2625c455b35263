"""Bootstrap few-shot, random search over demo sets, and search over their order (the dspy recipes; Khattab et al.,
arXiv 2310.03714; order after Lu et al., arXiv 2104.08786).

The program runs on train; rollouts that pass become demos. Candidate sets (zero-shot, labels only, and `sets` random
ones) are scored on val; then the best set's order is searched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from harness.errors import InputError
from harness.optimizer.base import Done, Example, Given, Host, Refusal, Result, Slot, State, Texts
from harness.optimizer.pool import Pool
from harness.optimizer.settings import Settings
from harness.optimizer.slots import demo_slot, sample, seed_texts
from harness.optimizer.together import together
from harness.records import Json


class BootstrapSettings(Settings):
    """`passing` is the least score that makes a rollout a demo (None keeps every rollout, to show what it costs).

    `balance` names an input by whose value demos are spread, at most `per_value` each. `sets` = 0 skips the search and
    gives the bootstrapped demos as they are.
    """

    bootstrapped: int = Field(default=4, ge=0)
    labelled: int = Field(default=16, ge=0)
    sets: int = Field(default=16, ge=0)
    orders: int = Field(default=0, ge=0)
    passing: float | None = 1.0
    balance: str = ""
    per_value: int = Field(default=2, ge=1)
    labels_only: bool = True


class Bootstrap:
    """Demos from the program's own good runs."""

    name = "bootstrap"

    def check(self, config: Mapping[str, Json]) -> None:
        """See `Optimizer`."""
        BootstrapSettings.read(config)

    def needs(self, given: Given, config: Mapping[str, Json]) -> int:
        """See `Foresees`."""
        settings = BootstrapSettings.read(config)
        if demo_slot(given) is None:
            raise InputError("bootstrap needs a slot for demos", mend='declare a slot with kind = "demos"')
        return given.train + (2 * given.val if settings.sets else 0)

    async def start(self, host: Host, config: Mapping[str, Json]) -> State:
        """Run the seed on train; what passes is the stock of demos. Raises InputError without a demo slot."""
        settings = BootstrapSettings.read(config)
        if demo_slot(host) is None:
            raise InputError("bootstrap needs a slot for demos", mend='declare a slot with kind = "demos"')
        pool = Pool(floor=host.floor)
        pool.add(seed_texts(host))
        train = host.examples("train")
        results = await host.evaluate(pool.texts(0), train, "bootstrap")
        stock = stock_of(train, results, settings.passing, settings.balance, settings.per_value)
        return {"settings": settings.model_dump(), "n": 0, "stock": stock, "pool": pool.json()}

    async def step(self, host: Host, state: State) -> State | Done:
        """Without a search, one candidate; else score the sets, then orders of the best."""
        settings = BootstrapSettings.read(state["settings"])
        slot = demo_slot(host)
        assert slot is not None
        pool = Pool(state["pool"], host.floor)
        if state["n"] == 0 and not settings.sets:
            demos: list[dict[str, Any]] = state["stock"][: settings.bootstrapped]
            made = host.admit(pool.texts(0), {slot.name: json.dumps(demos)}, pool.fingerprints())
            if not isinstance(made, Refusal):
                pool.add(made, [0])
            return {**state, "n": 2, "pool": pool.json()}
        if state["n"] == 0:
            await self._score(host, pool, slot, self._sets(host, settings, state["stock"]), include=0)
            return {**state, "n": 1, "pool": pool.json()}
        if state["n"] == 1 and settings.orders:
            await self._score(host, pool, slot, _orders(host, settings, pool, slot), include=None)
            return {**state, "n": 2, "pool": pool.json()}
        return Done(state, "all demo sets are scored", self.nominees(state))

    def nominees(self, state: State) -> tuple[Texts, ...]:
        """Every candidate scored, best first; without a search, the bootstrapped one."""
        pool = Pool(state["pool"])
        if not state["settings"]["sets"]:
            return tuple(pool.texts(k) for k in reversed(range(len(pool))))
        return tuple(pool.texts(k) for k in pool.order())

    def _sets(self, host: Host, settings: BootstrapSettings, stock: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
        labelled = labels(host.examples("train"))
        made: list[list[dict[str, Any]]] = []
        if settings.labels_only and labelled:
            made.append(sample(host.rng("bootstrap/labels"), labelled, settings.labelled))
        for n in range(settings.sets):
            rng = host.rng("bootstrap/set", n)
            drawn = sample(rng, stock, settings.bootstrapped) if stock else []
            taken = {json.dumps(demo["inputs"], sort_keys=True) for demo in drawn}
            room = settings.labelled - len(drawn)
            rest = [demo for demo in labelled if json.dumps(demo["inputs"], sort_keys=True) not in taken]
            made.append(drawn + (sample(rng, rest, room) if room > 0 and rest else []))
        return made

    async def _score(
        self, host: Host, pool: Pool, slot: Slot, sets: Sequence[list[dict[str, Any]]], include: int | None
    ) -> None:
        numbers = [] if include is None else [include]
        parent = pool.texts(pool.order()[0] if include is None else include)
        for demos in sets:
            made = host.admit(parent, {slot.name: json.dumps(demos)}, pool.fingerprints())
            if not isinstance(made, Refusal):
                numbers.append(pool.add(made, [0]))
        found = await together([lambda k=k: host.evaluate(pool.texts(k), host.examples("val"), "val") for k in numbers])
        for number, results in zip(numbers, found, strict=True):
            pool.record(number, results)


def stock_of(
    examples: Sequence[Example], results: Sequence[Result], passing: float | None, balance: str, per_value: int
) -> list[dict[str, Any]]:
    """Rollouts worth showing as demos, in example order; at most `per_value` for each value of `balance` (0: all)."""
    stock: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    for example, result in zip(examples, results, strict=True):
        good = result.score is not None and (passing is None or result.score >= passing)
        value = str(example.inputs.get(balance, ""))
        if not good or not result.trace or (balance and per_value and counts.get(value, 0) >= per_value):
            continue
        counts[value] = counts.get(value, 0) + 1
        stock.append(
            {"inputs": dict(example.inputs), "output": result.trace[-1].said, "expected": _text(example.expected)}
        )
    return stock


def labels(examples: Sequence[Example]) -> list[dict[str, Any]]:
    """Demos from the labels alone, where there are labels."""
    return [
        {"inputs": dict(one.inputs), "output": _text(one.expected), "expected": _text(one.expected)}
        for one in examples
        if one.expected is not None
    ]


def _orders(host: Host, settings: BootstrapSettings, pool: Pool, slot: Slot) -> list[list[dict[str, Any]]]:
    best = json.loads(pool.texts(pool.order()[0])[slot.name])
    return [sample(host.rng("bootstrap/order", n), best, len(best)) for n in range(settings.orders)] if best else []


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value)
