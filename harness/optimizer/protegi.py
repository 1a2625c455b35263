"""ProTeGi: prompt optimization with textual gradients and a bandit (Pryzant et al., arXiv 2305.03495).

Six rounds; each prompt of a beam of 4 runs on a train minibatch of 64; 4 gradients from 4 errors each; an edit for each
gradient and 2 Monte Carlo paraphrases of it; at most 8 successors a parent; the next beam by UCB with c = 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from harness.optimizer import wording
from harness.optimizer.bandit import ucb_rounds
from harness.optimizer.base import Done, Given, Host, Refusal, Result, Role, Slot, State, Texts
from harness.optimizer.pool import Pool
from harness.optimizer.settings import Settings
from harness.optimizer.slots import editable, sample, seed_texts
from harness.optimizer.together import together
from harness.records import Json, Status


class ProtegiSettings(Settings):
    """`full_score` is the score at which an example is no error."""

    rounds: int = Field(default=6, ge=1)
    beam: int = Field(default=4, ge=1)
    minibatch: int = Field(default=64, ge=1)
    gradients: int = Field(default=4, ge=1)
    errors: int = Field(default=4, ge=1)
    paraphrases: int = Field(default=2, ge=0)
    cap: int = Field(default=8, ge=1)
    c: float = Field(default=1.0, ge=0)
    ucb_rounds: int = Field(default=8, ge=1)
    arms: int = Field(default=8, ge=1)
    samples: int = Field(default=32, ge=1)
    full_score: float = 1.0
    temperature: float = Field(default=1.0, ge=0)


class Protegi:
    """Gradient descent in words, a bandit for selection."""

    name = "protegi"

    def check(self, config: Mapping[str, Json]) -> None:
        """See `Optimizer`."""
        ProtegiSettings.read(config)

    def needs(self, given: Given, config: Mapping[str, Json]) -> int:
        """See `Foresees`."""
        settings = ProtegiSettings.read(config)
        editable(given)
        return min(settings.minibatch, given.train) + 2 * min(settings.samples, given.train)

    async def start(self, host: Host, config: Mapping[str, Json]) -> State:
        """Nothing is spent yet."""
        settings = ProtegiSettings.read(config)
        editable(host)
        pool = Pool(floor=host.floor)
        pool.add(seed_texts(host))
        return {"settings": settings.model_dump(), "n": 0, "beam": [0], "pool": pool.json()}

    async def step(self, host: Host, state: State) -> State | Done:
        """Expand every prompt of the beam, select by UCB."""
        settings = ProtegiSettings.read(state["settings"])
        n: int = state["n"] + 1
        if n > settings.rounds:
            return Done(state, f"all {settings.rounds} rounds are done", self.nominees(state))
        pool = Pool(state["pool"], host.floor)
        slots = editable(host)
        slot = slots[(n - 1) % len(slots)]
        beam: list[int] = state["beam"]
        made = await together([lambda k=k: self._expand(host, settings, pool.texts(k), slot, n, k) for k in beam])
        arms = list(beam)
        for parent, texts in zip(beam, made, strict=True):
            taken = 0
            for text in texts:
                child = host.admit(pool.texts(parent), {slot.name: text}, pool.fingerprints())
                if not isinstance(child, Refusal) and taken < settings.cap:
                    arms.append(pool.add(child, [parent]))
                    taken += 1
        order = await ucb_rounds(
            host,
            pool,
            arms,
            host.examples("train"),
            rounds=settings.ucb_rounds,
            per_round=settings.arms,
            samples=settings.samples,
            c=settings.c,
            name="protegi",
            step=n,
        )
        return {**state, "n": n, "beam": order[: settings.beam], "pool": pool.json()}

    def nominees(self, state: State) -> tuple[Texts, ...]:
        """The beam, best first."""
        pool = Pool(state["pool"])
        return tuple(pool.texts(k) for k in state["beam"])

    async def _expand(
        self, host: Host, settings: ProtegiSettings, texts: Texts, slot: Slot, n: int, parent: int
    ) -> list[str | None]:
        """New texts for `slot`: an edit a gradient, then its paraphrases; shuffled, so that the cap is no bias."""
        batch = sample(host.rng("protegi/batch", n, parent), host.examples("train"), settings.minibatch)
        results = await host.evaluate(texts, batch, f"protegi/{n}/{parent}")
        wrong = _errors(results, settings.full_score)
        if not wrong:
            return []
        draws = [
            sample(host.rng("protegi/errors", n, parent, g), wrong, settings.errors) for g in range(settings.gradients)
        ]
        found = await together(
            [
                lambda g=g, drawn=drawn: self._gradient(host, settings, texts, slot, drawn, f"protegi/{n}/{parent}/{g}")
                for g, drawn in enumerate(draws)
            ]
        )
        flat = [text for texts_of in found for text in texts_of]
        return sample(host.rng("protegi/order", n, parent), flat, len(flat)) if flat else []

    async def _gradient(
        self, host: Host, settings: ProtegiSettings, texts: Texts, slot: Slot, drawn: Sequence[Result], tag: str
    ) -> list[str | None]:
        warm = settings.temperature
        sections = [("module", slot.module), ("text", texts[slot.name]), ("feedback", wording.feedback(drawn))]
        critique = (
            await host.complete(Role.PROPOSES, wording.request("critique", sections, tag=tag, temperature=warm))
        ).text
        if critique is None:
            return []
        sections = [("module", slot.module), ("text", texts[slot.name]), ("critique", critique)]
        edit = (
            await host.complete(Role.PROPOSES, wording.request("edit", sections, tag=tag, temperature=warm, slot=slot))
        ).text
        made: list[str | None] = [edit]
        for copy in range(settings.paraphrases if edit else 0):
            sections = [("module", slot.module), ("text", edit or "")]
            asked = wording.request("paraphrase", sections, tag=f"{tag}/{copy}", temperature=warm, slot=slot)
            made.append((await host.complete(Role.PROPOSES, asked)).text)
        return made


def _errors(results: Sequence[Result], full_score: float) -> list[Result]:
    return [
        result
        for result in results
        if result.status is not Status.INFRA_ERROR and (result.score is None or result.score < full_score)
    ]
