"""ACE: a playbook grown by generate, reflect, curate (Zhang et al., arXiv 2510.04618), with Combee's parallel reading.

Each step runs a train batch, draws lessons from groups of its records (map), joins them into additions (reduce), and
keeps the new playbook if the same batch does not score worse. Bullets are deduplicated and bounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from harness.optimizer import wording
from harness.optimizer.base import Done, Given, Host, Refusal, Result, Role, Slot, State, Texts
from harness.optimizer.combee import batch_size, fit_delay, groups
from harness.optimizer.playbook import Playbook, additions
from harness.optimizer.pool import score_of
from harness.optimizer.settings import Settings
from harness.optimizer.slots import editable, known_slots, sample, seed_texts
from harness.optimizer.together import together
from harness.records import Json


class AceSettings(Settings):
    """`slot` holds the playbook (default: slots take turns). `parallel` reads a batch in floor(sqrt n) groups over two
    shuffled copies; without it, one call reads all.

    With `tau` above 0 the batch grows: the second step reads twice as many, and from then on as many as Combee's
    controller says, up to the one where another record spares a pass over train fewer than `tau` words of waiting.
    """

    steps: int = Field(default=8, ge=1)
    batch: int = Field(default=12, ge=1)
    slot: str = ""
    most_bullets: int = Field(default=40, ge=1)
    most_chars: int = Field(default=4_000, ge=20)
    parallel: bool = True
    copies: int = Field(default=2, ge=1)
    gate: bool = True
    tau: float = Field(default=0.0, ge=0)
    temperature: float = Field(default=1.0, ge=0)


class Ace:
    """A growing, bounded playbook."""

    name = "ace"

    def check(self, config: Mapping[str, Json]) -> None:
        """See `Optimizer`."""
        AceSettings.read(config)

    def needs(self, given: Given, config: Mapping[str, Json]) -> int:
        """See `Foresees`."""
        settings = AceSettings.read(config)
        known_slots(given, [settings.slot], "slot")
        return 2 * min(settings.batch, given.train)

    async def start(self, host: Host, config: Mapping[str, Json]) -> State:
        """Nothing is spent yet."""
        settings = AceSettings.read(config)
        known_slots(host, [settings.slot], "slot")
        names = [slot.name for slot in editable(host)]
        texts = seed_texts(host)
        settled = settings.model_dump(exclude=None if settings.tau else {"tau"})
        return {"settings": settled, "n": 0, "books": {name: [] for name in names}, "kept": [texts]}

    async def step(self, host: Host, state: State) -> State | Done:
        """Generate, reflect, curate, gate."""
        settings = AceSettings.read(state["settings"])
        n: int = state["n"] + 1
        if n > settings.steps:
            return Done(state, f"all {settings.steps} steps are done", self.nominees(state))
        slots = [slot for slot in editable(host) if settings.slot in ("", slot.name)]
        slot = slots[(n - 1) % len(slots)]
        texts: Texts = dict(state["kept"][-1])
        paces: list[list[float]] = state.get("paces", [])
        train = host.examples("train")
        batch = sample(host.rng("ace/batch", n), train, _size(settings, paces, len(train)))
        before = await host.evaluate(texts, batch, f"ace/{n}")
        lessons = await self._lessons(host, settings, slot, texts, before, n)
        room = min(settings.most_chars, slot.max_chars - len(slot.text) - 1)
        book = Playbook(state["books"][slot.name], most=settings.most_bullets, chars=room)
        sections = [("module", slot.module), ("playbook", texts[slot.name]), ("lessons", "\n".join(lessons))]
        asked = wording.request("curate", sections, tag=f"ace/{n}", temperature=settings.temperature)
        reply = await host.complete(Role.PROPOSES, asked) if lessons else None
        if settings.tau:
            waited = _longest(before) + max(map(_words, lessons), default=0) + _words(reply.text if reply else None)
            state = {**state, "paces": [*paces, [len(batch), max(1.0, waited) * len(train) / len(batch)]]}
        found = additions(reply.text if reply else None)
        if reply is not None and reply.text is not None and not found:
            host.unusable(Role.PROPOSES, "no list of additions in it")
        added = [book.add(text, n) for text in found]
        child = host.admit(texts, {slot.name: book.text(slot.text)}, []) if any(added) else Refusal("nothing new")
        if isinstance(child, Refusal):
            return {**state, "n": n}
        after = await host.evaluate(child, batch, f"ace/{n}")
        gained = score_of(after, host.floor) >= score_of(before, host.floor)
        if settings.gate and not gained:
            return {**state, "n": n}
        book.credit(n, gained)
        books = {**state["books"], slot.name: book.bullets}
        return {**state, "n": n, "books": books, "kept": [*state["kept"], child][-20:]}

    def nominees(self, state: State) -> tuple[Texts, ...]:
        """The playbooks kept, the last first."""
        return tuple(reversed(state["kept"]))

    async def _lessons(
        self, host: Host, settings: AceSettings, slot: Slot, texts: Texts, results: Sequence[Result], n: int
    ) -> list[str]:
        """One call a group; what every group said."""
        read = groups(results, host.rng("ace/groups", n), settings.copies) if settings.parallel else [list(results)]
        asks = [
            wording.request(
                "lesson",
                [("module", slot.module), ("text", texts[slot.name]), ("feedback", wording.feedback(group))],
                tag=f"ace/{n}/{k}",
                temperature=settings.temperature,
            )
            for k, group in enumerate(read)
        ]
        replies = await together([lambda ask=ask: host.complete(Role.PROPOSES, ask) for ask in asks])
        return [reply.text for reply in replies if reply.text]


def _size(settings: AceSettings, paces: Sequence[Sequence[float]], train: int) -> int:
    """How many records the next step reads. `paces` are (records, words that a pass over train would wait for)."""
    if not settings.tau or not paces:
        return settings.batch
    if len({records for records, _ in paces}) < 2:  # a line takes two points
        return 2 * settings.batch
    a, alpha = fit_delay([(records, words) for records, words in paces])
    return max(settings.batch, batch_size(a, alpha, settings.tau, train))


def _words(text: str | None) -> int:
    return len((text or "").split())


def _longest(results: Sequence[Result]) -> int:
    """The words of the rollout that the others wait for: they run at once, its calls one after the other."""
    return max((sum(_words(call.said) for call in result.trace) for result in results), default=0)
