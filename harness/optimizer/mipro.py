"""MIPROv2: joint search over instructions and demo sets (Opsahl-Ong et al., arXiv 2406.11695).

Bootstrap demo sets from one pass over train; propose instructions for each module, grounded in a summary of the same
pass, a description of the program, demos and a tip; search the combinations with a multivariate tree-structured Parzen
estimator on minibatches, a full evaluation every few trials; the answer comes from full evaluations only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from harness.optimizer import wording
from harness.optimizer.base import Done, Given, Host, Refusal, Request, Role, Slot, State, Texts
from harness.optimizer.bootstrap import stock_of
from harness.optimizer.parzen import optuna, suggest
from harness.optimizer.pool import Pool, score_of
from harness.optimizer.settings import Settings
from harness.optimizer.slots import demo_slot, editable, sample, seed_texts
from harness.optimizer.together import together
from harness.records import Json

TIPS = ("be concise", "be creative", "think step by step", "name the stakes", "give the reader a role")
_DEMOS = "demos"


class MiproSettings(Settings):
    """`instructions` and `demo_sets` come on top of the seed's; `grounded` = False shows what grounding is worth."""

    instructions: int = Field(default=6, ge=1)
    demo_sets: int = Field(default=6, ge=0)
    demos: int = Field(default=4, ge=1)
    per_value: int = Field(default=0, ge=0)
    balance: str = ""
    trials: int = Field(default=30, ge=1)
    minibatch: int = Field(default=35, ge=1)
    full_every: int = Field(default=5, ge=1)
    full_count: int = Field(default=1, ge=1)
    passing: float = 1.0
    grounded: bool = True
    sampler: Literal["tpe", "random"] = "tpe"
    temperature: float = Field(default=1.0, ge=0)


class Mipro:
    """Instructions and demos, searched together."""

    name = "mipro"

    def check(self, config: Mapping[str, Json]) -> None:
        """See `Optimizer`."""
        MiproSettings.read(config)

    def needs(self, given: Given, config: Mapping[str, Json]) -> int:
        """See `Foresees`."""
        settings = MiproSettings.read(config)
        if settings.sampler == "tpe":
            optuna()
        if demo_slot(given) is None:
            editable(given)
        return given.train + min(settings.minibatch, given.train)

    async def start(self, host: Host, config: Mapping[str, Json]) -> State:
        """One pass over train serves both the demos and the summary; then propose instructions."""
        settings = MiproSettings.read(config)
        texts, train = seed_texts(host), host.examples("train")
        results = await host.evaluate(texts, train, "bootstrap")
        stock = stock_of(train, results, settings.passing, settings.balance, settings.per_value)
        choices: dict[str, list[str]] = {}
        summary, program = "", ""
        if settings.grounded:
            summary = await self._ask(host, "summarise", [("feedback", wording.feedback(results))], settings)
            program = await self._ask(host, "describe", [("program", json.dumps(texts))], settings)
        for slot in editable(host):
            choices[slot.name] = [texts[slot.name], *await self._instructions(host, settings, slot, summary, program)]
        slot = demo_slot(host)
        if slot is not None:
            sets = [
                sample(host.rng("mipro/demos", n), stock, settings.demos)
                for n in range(settings.demo_sets if stock else 0)
            ]
            choices[slot.name] = list(dict.fromkeys([texts[slot.name], *(json.dumps(found) for found in sets)]))
        return {
            "settings": settings.model_dump(),
            "n": 0,
            "choices": choices,
            "trials": [],
            "pool": Pool(floor=host.floor).json(),
            "full": [],
        }

    async def step(self, host: Host, state: State) -> State | Done:
        """One trial on a minibatch; a full evaluation of the best-looking combination when it is due."""
        settings = MiproSettings.read(state["settings"])
        n: int = state["n"] + 1
        if n > settings.trials:
            return Done(state, f"all {settings.trials} trials are done", self.nominees(state))
        sizes = {name: len(texts) for name, texts in state["choices"].items()}
        trials: list[dict[str, Any]] = list(state["trials"])
        choice = suggest(sizes, trials, host.rng("mipro/suggest", n), settings.sampler)
        batch = sample(host.rng("mipro/batch", n), host.examples("train"), settings.minibatch)
        texts = _built(state["choices"], choice, host)
        found = await host.evaluate(texts, batch, f"trial{n}")
        failed, mean = score_of(found, host.floor)
        trials.append({"choice": choice, "value": mean if failed == 0 else None, "n": len(found)})
        after = {**state, "n": n, "trials": trials}
        if n % settings.full_every == 0 or n == settings.trials:
            after = await self._full(host, settings, after)
        return after

    def nominees(self, state: State) -> tuple[Texts, ...]:
        """Combinations by their full evaluation, best first; the seed when none was."""
        pool = Pool(state["pool"])
        if len(pool):
            return tuple(pool.texts(k) for k in pool.order())
        return ({name: texts[0] for name, texts in state["choices"].items()},)

    async def _full(self, host: Host, settings: MiproSettings, state: State) -> State:
        pool = Pool(state["pool"], host.floor)
        done = {json.dumps(choice, sort_keys=True) for choice in state["full"]}
        means: dict[str, list[float]] = {}
        for trial in state["trials"]:
            if trial["value"] is not None:
                means.setdefault(json.dumps(trial["choice"], sort_keys=True), []).append(trial["value"])
        ranked = sorted(means, key=lambda key: (-sum(means[key]) / len(means[key]), key))
        chosen = [key for key in ranked if key not in done][: settings.full_count]
        numbers = [pool.add(_built(state["choices"], json.loads(key), host)) for key in chosen]
        found = await together([lambda k=k: host.evaluate(pool.texts(k), host.examples("val"), "val") for k in numbers])
        for number, results in zip(numbers, found, strict=True):
            pool.record(number, results)
        return {**state, "pool": pool.json(), "full": [*state["full"], *(json.loads(key) for key in chosen)]}

    async def _instructions(
        self, host: Host, settings: MiproSettings, slot: Slot, summary: str, program: str
    ) -> list[str]:
        """Up to `instructions` different admissible ones."""
        asks = [_instruct(host, settings, slot, summary, program, draw) for draw in range(2 * settings.instructions)]
        replies = await together([lambda ask=ask: host.complete(Role.PROPOSES, ask) for ask in asks])
        texts, seen = seed_texts(host), list[str]()
        pool = Pool()
        pool.add(texts)
        for reply in replies:
            seen = pool.fingerprints()
            made = host.admit(texts, {slot.name: reply.text}, seen)
            if not isinstance(made, Refusal) and len(pool) <= settings.instructions:
                pool.add(made)
        return [pool.texts(k)[slot.name] for k in range(1, len(pool))]

    async def _ask(self, host: Host, purpose: str, sections: Sequence[tuple[str, str]], settings: MiproSettings) -> str:
        asked = wording.request(purpose, sections, tag="mipro", temperature=settings.temperature)
        return (await host.complete(Role.PROPOSES, asked)).text or ""


def _built(choices: Mapping[str, Sequence[str]], choice: Mapping[str, int], host: Host) -> Texts:
    return {**seed_texts(host), **{name: choices[name][number] for name, number in choice.items()}}


def _instruct(host: Host, settings: MiproSettings, slot: Slot, summary: str, program: str, draw: int) -> Request:
    tip = TIPS[int(host.rng(f"mipro/tip/{slot.name}", draw).integers(len(TIPS)))] if settings.grounded else ""
    sections = [
        ("module", slot.module),
        ("text", slot.text),
        ("program", program),
        ("data", summary),
        ("tip", tip),
    ]
    return wording.request("instruct", sections, tag=f"mipro/{draw}", temperature=settings.temperature, slot=slot)
