"""APE: propose many instructions, score, keep the best (Zhou et al., arXiv 2211.01910).

50 proposals from worked examples, narrowed by UCB rounds; then paraphrases of the best (Monte Carlo search), `rounds`
times, each narrowed the same way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import Field

from harness.optimizer import wording
from harness.optimizer.bandit import ucb_rounds
from harness.optimizer.base import Done, Given, Host, Refusal, Request, Role, Slot, State, Texts
from harness.optimizer.pool import Pool
from harness.optimizer.settings import Settings
from harness.optimizer.slots import editable, sample, seed_texts
from harness.optimizer.together import together
from harness.records import Json


class ApeSettings(Settings):
    """`proposals` per slot; each UCB round gives `samples` examples to the `arms` best-looking candidates."""

    proposals: int = Field(default=50, ge=1)
    demos: int = Field(default=5, ge=0)
    rounds: int = Field(default=1, ge=0)
    resampled: int = Field(default=8, ge=1)
    ucb_rounds: int = Field(default=8, ge=1)
    arms: int = Field(default=16, ge=1)
    samples: int = Field(default=4, ge=1)
    c: float = Field(default=1.0, ge=0)
    temperature: float = Field(default=1.0, ge=0)


class Ape:
    """Automatic prompt engineer: one slot after the other."""

    name = "ape"

    def check(self, config: Mapping[str, Json]) -> None:
        """See `Optimizer`."""
        ApeSettings.read(config)

    def needs(self, given: Given, config: Mapping[str, Json]) -> int:
        """See `Foresees`."""
        settings = ApeSettings.read(config)
        editable(given)
        return min(settings.arms, settings.proposals + 1) * min(settings.samples, given.train)

    async def start(self, host: Host, config: Mapping[str, Json]) -> State:
        """Nothing is spent yet."""
        settings = ApeSettings.read(config)
        pool = Pool(floor=host.floor)
        pool.add(seed_texts(host))
        editable(host)
        return {"settings": settings.model_dump(), "n": 0, "base": 0, "pool": pool.json()}

    async def step(self, host: Host, state: State) -> State | Done:
        """Propose for one slot (or rephrase its best), narrow by UCB."""
        settings = ApeSettings.read(state["settings"])
        slots = editable(host)
        n: int = state["n"]
        if n >= len(slots) * (1 + settings.rounds):
            return Done(state, "every slot is done", self.nominees(state))
        slot, turn = slots[n // (1 + settings.rounds)], n % (1 + settings.rounds)
        pool = Pool(state["pool"], host.floor)
        base = state["base"]
        asks = (
            [_propose(host, settings, slot, n, draw) for draw in range(settings.proposals)]
            if turn == 0
            else [_rephrase(settings, slot, pool.texts(base), n, draw) for draw in range(settings.resampled)]
        )
        replies = await together([lambda ask=ask: host.complete(Role.PROPOSES, ask) for ask in asks])
        arms = [base]
        for reply in replies:
            made = host.admit(pool.texts(base), {slot.name: reply.text}, pool.fingerprints())
            if not isinstance(made, Refusal):
                arms.append(pool.add(made, [base]))
        order = await ucb_rounds(
            host,
            pool,
            arms,
            host.examples("train"),
            rounds=settings.ucb_rounds,
            per_round=settings.arms,
            samples=settings.samples,
            c=settings.c,
            name="ape",
            step=n,
        )
        return {**state, "n": n + 1, "base": _trusted(pool, order), "pool": pool.json()}

    def nominees(self, state: State) -> tuple[Texts, ...]:
        """The chosen base first, then whatever was measured, most measured first."""
        pool = Pool(state["pool"])
        rest = sorted(
            (k for k in range(len(pool)) if k != state["base"] and pool.count(k)),
            key=lambda k: (-pool.count(k), *(-part for part in pool.key(k)), k),
        )
        return tuple(pool.texts(k) for k in [state["base"], *rest])


def _trusted(pool: Pool, order: list[int]) -> int:
    """The best of those measured at least half as often as the most measured: one lucky draw does not win."""
    most = max(pool.count(k) for k in order)
    return next(k for k in order if 2 * pool.count(k) >= most)


def _propose(host: Host, settings: ApeSettings, slot: Slot, n: int, draw: int) -> Request:
    drawn = sample(host.rng("ape/demos", n, draw), host.examples("train"), settings.demos)
    shown = "\n".join(json.dumps({"inputs": dict(one.inputs), "expected": one.expected}) for one in drawn)
    sections = [("module", slot.module), ("program", "one module of a program" if slot.module else ""), ("data", shown)]
    return wording.request("instruct", sections, tag=f"ape/{n}/{draw}", temperature=settings.temperature, slot=slot)


def _rephrase(settings: ApeSettings, slot: Slot, texts: Texts, n: int, draw: int) -> Request:
    sections = [("module", slot.module), ("text", texts[slot.name])]
    return wording.request("paraphrase", sections, tag=f"ape/{n}/{draw}", temperature=settings.temperature, slot=slot)
