"""OPRO: a model proposes from the history of texts and their scores (Yang et al., arXiv 2309.03409).

The meta-prompt shows the best 20 texts in ascending order of score, so that the best stands last, and 3 examples; 8
new texts a step at temperature 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from harness.optimizer import wording
from harness.optimizer.base import Done, Example, Given, Host, Refusal, Reply, Request, Role, Slot, State, Texts
from harness.optimizer.pool import Pool
from harness.optimizer.settings import Settings
from harness.optimizer.slots import editable, sample, seed_texts
from harness.optimizer.together import together
from harness.records import Json


class OproSettings(Settings):
    """`score_on` is what scores the history; `examples` of them count (0: all). Slots take turns, step by step.

    `measure_again` of the best texts are scored afresh each step, so that a lucky score does not lead the history.
    """

    steps: int = Field(default=25, ge=1)
    proposals: int = Field(default=8, ge=1)
    shown: int = Field(default=20, ge=1)
    exemplars: int = Field(default=3, ge=0)
    score_on: Literal["train", "val"] = "train"
    examples: int = Field(default=0, ge=0)
    measure_again: int = Field(default=1, ge=0)
    temperature: float = Field(default=1.0, ge=0)


class Opro:
    """Optimization by prompting."""

    name = "opro"

    def check(self, config: Mapping[str, Json]) -> None:
        """See `Optimizer`."""
        OproSettings.read(config)

    def needs(self, given: Given, config: Mapping[str, Json]) -> int:
        """See `Foresees`."""
        settings = OproSettings.read(config)
        editable(given)
        there = given.train if settings.score_on == "train" else given.val
        return 2 * (min(settings.examples, there) if settings.examples else there)

    async def start(self, host: Host, config: Mapping[str, Json]) -> State:
        """Score the seed."""
        settings = OproSettings.read(config)
        editable(host)
        pool = Pool(floor=host.floor)
        pool.add(seed_texts(host))
        pool.record(0, await host.evaluate(pool.texts(0), _scored(host, settings), "score"))
        return {"settings": settings.model_dump(), "n": 0, "pool": pool.json()}

    async def step(self, host: Host, state: State) -> State | Done:
        """`proposals` new texts from the history as it stood before the step."""
        settings = OproSettings.read(state["settings"])
        n: int = state["n"] + 1
        if n > settings.steps:
            return Done(state, f"all {settings.steps} steps are done", self.nominees(state))
        pool = Pool(state["pool"], host.floor)
        slots = editable(host)
        slot = slots[(n - 1) % len(slots)]
        fresh = await self._propose(host, settings, pool, slot, n)
        again = _ascending(pool)[-settings.measure_again :] if settings.measure_again else []
        scored = _scored(host, settings)
        asked = [(number, "score") for number in fresh] + [(number, f"again{n}") for number in again]
        results = await together([lambda k=k, tag=tag: host.evaluate(pool.texts(k), scored, tag) for k, tag in asked])
        for (number, _), found in zip(asked, results, strict=True):
            pool.record(number, found)
        return {**state, "n": n, "pool": pool.json()}

    async def _propose(self, host: Host, settings: OproSettings, pool: Pool, slot: Slot, n: int) -> list[int]:
        """`proposals` new texts; what was refused (most often: tried before) is asked for once more."""
        shown = _ascending(pool)
        fresh: list[int] = []
        for attempt in range(2):
            missing = settings.proposals - len(fresh)
            asks = [_ask(host, settings, pool, slot, f"{n}/{attempt}/{draw}", n) for draw in range(missing)]
            replies: list[Reply] = await together([lambda ask=ask: host.complete(Role.PROPOSES, ask) for ask in asks])
            for reply in replies:
                made = host.admit(pool.texts(shown[-1]), {slot.name: reply.text}, pool.fingerprints())
                if not isinstance(made, Refusal):
                    fresh.append(pool.add(made, [shown[-1]]))
        return fresh

    def nominees(self, state: State) -> tuple[Texts, ...]:
        """Every text tried, the best score first."""
        pool = Pool(state["pool"])
        return tuple(pool.texts(number) for number in pool.order())


def _scored(host: Host, settings: OproSettings) -> Sequence[Example]:
    examples = host.examples(settings.score_on)
    return examples[: settings.examples] if settings.examples else examples


def _ascending(pool: Pool) -> list[int]:
    """Scored candidates from worst to best; among equals the newest last, so that search drifts instead of sticking."""
    return sorted((k for k in range(len(pool)) if pool.count(k)), key=lambda k: (pool.key(k), k))


def _ask(host: Host, settings: OproSettings, pool: Pool, slot: Slot, draw: str, n: int) -> Request:
    lines = [
        f"text: {pool.texts(k)[slot.name]}\nscore: {pool.key(k)[1]:.2f}" for k in _ascending(pool)[-settings.shown :]
    ]
    drawn = sample(host.rng("opro/exemplars", n), host.examples("train"), settings.exemplars)
    exemplars = "\n".join(json.dumps({"inputs": dict(one.inputs), "expected": one.expected}) for one in drawn)
    sections = [("module", slot.module), ("examples", exemplars), ("history", "\n".join(lines))]
    return wording.request("history", sections, tag=f"opro/{draw}", temperature=settings.temperature, slot=slot)
