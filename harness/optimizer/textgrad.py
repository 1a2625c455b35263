"""TextGrad: textual gradients through a graph of slots (Yuksekgonul et al., arXiv 2406.07496; Nature 2025).

Each step runs the program on a train minibatch, writes the loss (the feedback), walks the graph from the loss back to
the first slot, asks for each slot's critique given what follows downstream, rewrites the slots that may change, and
keeps the step only if the same minibatch does not score worse.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from harness.errors import InputError
from harness.optimizer import wording
from harness.optimizer.admit import fingerprint
from harness.optimizer.base import Done, Given, Host, Refusal, Reply, Role, Slot, State, Texts
from harness.optimizer.pool import score_of
from harness.optimizer.settings import Settings
from harness.optimizer.slots import editable, known_slots, sample, seed_texts
from harness.records import Json

_NOTHING = "nothing to improve"


class TextGradSettings(Settings):
    """`gate` keeps a step only if its minibatch does not score worse; `frozen` slots get no gradient."""

    steps: int = Field(default=8, ge=1)
    minibatch: int = Field(default=12, ge=1)
    gate: bool = True
    frozen: tuple[str, ...] = ()
    temperature: float = Field(default=1.0, ge=0)


class TextGrad:
    """Textual gradient descent over the program's slots."""

    name = "textgrad"

    def check(self, config: Mapping[str, Json]) -> None:
        """See `Optimizer`."""
        TextGradSettings.read(config)

    def needs(self, given: Given, config: Mapping[str, Json]) -> int:
        """See `Foresees`."""
        settings = TextGradSettings.read(config)
        known_slots(given, settings.frozen, "frozen", given.slots)
        if all(slot.name in settings.frozen for slot in editable(given)):
            raise InputError("every slot is frozen", key="agent.config.frozen", mend="leave one out")
        return 2 * min(settings.minibatch, given.train)

    async def start(self, host: Host, config: Mapping[str, Json]) -> State:
        """Nothing is spent yet."""
        settings = TextGradSettings.read(config)
        editable(host)
        texts = seed_texts(host)
        return {"settings": settings.model_dump(mode="json"), "n": 0, "texts": texts, "kept": [texts]}

    async def step(self, host: Host, state: State) -> State | Done:
        """Forward, loss, backward, rewrite, gate."""
        settings = TextGradSettings.read(state["settings"])
        n: int = state["n"] + 1
        if n > settings.steps:
            return Done(state, f"all {settings.steps} steps are done", self.nominees(state))
        texts: Texts = dict(state["texts"])
        batch = sample(host.rng("textgrad/batch", n), host.examples("train"), settings.minibatch)
        before = await host.evaluate(texts, batch, f"step{n}")
        critiques = await self._backward(host, settings, texts, wording.feedback(before), n)
        edits = {
            name: await self._rewrite(host, settings, texts, name, critique, n) for name, critique in critiques.items()
        }
        child = self._admitted(host, texts, edits)
        if child is None:
            return {**state, "n": n}
        after = await host.evaluate(child, batch, f"step{n}")
        if settings.gate and score_of(after, host.floor) < score_of(before, host.floor):
            return {**state, "n": n}
        return {**state, "n": n, "texts": child, "kept": [*state["kept"], child]}

    def nominees(self, state: State) -> tuple[Texts, ...]:
        """Every kept step, the last first."""
        return tuple(reversed(state["kept"]))

    async def _backward(
        self, host: Host, settings: TextGradSettings, texts: Texts, loss: str, n: int
    ) -> dict[str, str]:
        """Each changeable slot's critique, asked for from the loss backwards."""
        critiques: dict[str, str] = {}
        downstream: list[str] = []
        for slot in reversed([slot for slot in host.slots if slot.kind == "text"]):
            sections = [
                ("module", slot.module),
                ("text", texts[slot.name]),
                ("feedback", loss),
                ("downstream", "\n".join(downstream)),
            ]
            asked = wording.request("backward", sections, tag=f"textgrad/{n}", temperature=settings.temperature)
            reply = await host.complete(Role.PROPOSES, asked)
            if reply.text is None or reply.text.strip() == _NOTHING:
                continue
            downstream.append(reply.text)
            if not slot.frozen and slot.name not in settings.frozen:
                critiques[slot.name] = reply.text
        return critiques

    async def _rewrite(
        self, host: Host, settings: TextGradSettings, texts: Texts, name: str, critique: str, n: int
    ) -> str | None:
        slot: Slot = next(slot for slot in host.slots if slot.name == name)
        sections = [("module", slot.module), ("text", texts[name]), ("critique", critique)]
        reply: Reply = await host.complete(
            Role.PROPOSES,
            wording.request("rewrite", sections, tag=f"textgrad/{n}", temperature=settings.temperature, slot=slot),
        )
        return reply.text

    def _admitted(self, host: Host, texts: Texts, edits: Mapping[str, str | None]) -> Texts | None:
        """`texts` with every admissible edit; one slot's bad edit does not cost the others theirs."""
        child = dict(texts)
        for name, text in edits.items():
            made = host.admit(child, {name: text}, [fingerprint(child)])
            if not isinstance(made, Refusal):
                child = made
        return child if child != texts else None
