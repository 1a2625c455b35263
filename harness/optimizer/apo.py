"""APO: beam search with textual gradients (after Agent Lightning's APO, ProTeGi and TextGrad).

Each round: every parent of the beam makes `branch_factor` children, each from a critique of a fresh train batch and an
edit along it; beam and children are scored on one val batch; the best `beam_width` go on; the leader is scored on all
of val, and the best leader of all rounds is kept. Optional: memory of earlier critiques, paraphrases (Monte Carlo),
a target score, and a least improvement below which rounds count as stale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import AliasChoices, Field

from harness.errors import BudgetError
from harness.optimizer import wording
from harness.optimizer.base import Done, Example, Given, Host, Refusal, Result, Role, Slot, State, Texts
from harness.optimizer.pool import Pool, score_of
from harness.optimizer.settings import Settings
from harness.optimizer.slots import editable, sample, seed_texts
from harness.optimizer.together import together
from harness.records import Json

_MEMORY = 8


class ApoSettings(Settings):
    """Names of both APO programs in use are taken: `max_iterations` is `beam_rounds`, and so on.

    `score_threshold` ends the run when the leader's full val score reaches it; `patience` rounds in a row that gain
    less than `min_improvement_threshold` end it too (0: never). What a batch has not finished in
    `rollout_batch_timeout` seconds is ended and counts as a failure in its mean.
    """

    beam_rounds: int = Field(default=3, ge=1, validation_alias=AliasChoices("beam_rounds", "max_iterations"))
    beam_width: int = Field(default=4, ge=1)
    branch_factor: int = Field(default=4, ge=1)
    gradient_batch_size: int = Field(default=4, ge=1)
    val_batch_size: int = Field(default=16, ge=1)
    rollout_batch_timeout: float = Field(default=3600.0, gt=0)
    run_initial_validation: bool = True
    diversity_temperature: float = Field(default=1.0, ge=0)
    paraphrases: int = Field(default=0, ge=0)
    score_threshold: float | None = None
    min_improvement_threshold: float = Field(default=0.0, ge=0)
    patience: int = Field(default=0, ge=0)
    enable_beam_search: bool = True
    enable_gradient_memory: bool = False
    enable_prompt_candidates: bool = False
    enable_gradient_mini_batch: bool = True

    @property
    def width(self) -> int:
        """The beam's width; one without beam search."""
        return self.beam_width if self.enable_beam_search else 1

    @property
    def copies(self) -> int:
        """Paraphrases of each edit; `enable_prompt_candidates` alone means two."""
        return self.paraphrases or (2 if self.enable_prompt_candidates else 0)


class Apo:
    """Textual gradients in a beam."""

    name = "apo"

    def check(self, config: Mapping[str, Json]) -> None:
        """See `Optimizer`."""
        ApoSettings.read(config)

    def needs(self, given: Given, config: Mapping[str, Json]) -> int:
        """See `Foresees`."""
        settings = ApoSettings.read(config)
        editable(given)
        first = given.val if settings.run_initial_validation else 0
        return first + _of_round(settings, 1, given.train, given.val)

    async def start(self, host: Host, config: Mapping[str, Json]) -> State:
        """Score the seed on all of val, unless told not to."""
        settings = ApoSettings.read(config)
        editable(host)
        pool = Pool(floor=host.floor)
        pool.add(seed_texts(host))
        best: list[Any] = [0, None]
        if settings.run_initial_validation:
            found = await host.evaluate(pool.texts(0), host.examples("val"), "full", settings.rollout_batch_timeout)
            pool.record(0, found)
            best = [0, list(score_of(found, host.floor))]
        return {
            "settings": settings.model_dump(),
            "n": 0,
            "beam": [0],
            "best": best,
            "leaders": [0],
            "stale": 0,
            "memory": [],
            "pool": pool.json(),
        }

    async def step(self, host: Host, state: State) -> State | Done:
        """One round of the beam."""
        settings = ApoSettings.read(state["settings"])
        stop = _stop(settings, state)
        if stop:
            return Done(state, stop, self.nominees(state))
        n: int = state["n"] + 1
        _check_budget(host, settings, len(state["beam"]))
        pool = Pool(state["pool"], host.floor)
        memory: list[str] = list(state["memory"])
        children = await self._children(host, settings, pool, state["beam"], memory, n)
        ranked = await _on_val_batch(host, settings, pool, [*state["beam"], *children], n)
        leader = ranked[0]
        full = await host.evaluate(pool.texts(leader), host.examples("val"), "full", settings.rollout_batch_timeout)
        if leader not in state["leaders"]:
            pool.record(leader, full)
        score, before = list(score_of(full, host.floor)), state["best"][1]
        better = before is None or score > before
        gained = before is None or score[1] - before[1] >= settings.min_improvement_threshold
        return {
            **state,
            "n": n,
            "beam": ranked[: settings.width],
            "best": [leader, score] if better else state["best"],
            "leaders": list(dict.fromkeys([*state["leaders"], leader])),
            "stale": 0 if better and gained else state["stale"] + 1,
            "memory": memory[-_MEMORY:] if settings.enable_gradient_memory else [],
            "pool": pool.json(),
        }

    def nominees(self, state: State) -> tuple[Texts, ...]:
        """The history's best first, then the other leaders."""
        pool = Pool(state["pool"])
        rest = [k for k in pool.order(state["leaders"]) if k != state["best"][0]]
        return tuple(pool.texts(k) for k in [state["best"][0], *rest])

    async def _children(
        self, host: Host, settings: ApoSettings, pool: Pool, beam: Sequence[int], memory: list[str], n: int
    ) -> list[int]:
        """New candidates from every parent and branch, in that order; critiques are added to `memory`."""
        parents = [beam[k % len(beam)] for k in range(settings.width)]
        slots = editable(host)
        branches = [
            (parent, k * settings.branch_factor + b)
            for k, parent in enumerate(parents)
            for b in range(settings.branch_factor)
        ]
        past = "\n".join(memory) if settings.enable_gradient_memory else ""
        made = await together(
            [
                lambda parent=parent, at=at: self._branch(
                    host, settings, pool, parent, slots[(n - 1 + at) % len(slots)], past, (n, at)
                )
                for parent, at in branches
            ]
        )
        children: list[int] = []
        for (parent, at), (critique, texts) in zip(branches, made, strict=True):
            if critique:
                memory.append(critique)
            slot = slots[(n - 1 + at) % len(slots)]
            for text in texts:
                child = host.admit(pool.texts(parent), {slot.name: text}, pool.fingerprints())
                if not isinstance(child, Refusal):
                    children.append(pool.add(child, [parent]))
        return children

    async def _branch(
        self, host: Host, settings: ApoSettings, pool: Pool, parent: int, slot: Slot, past: str, at: tuple[int, int]
    ) -> tuple[str, list[str | None]]:
        """(critique, new texts): run a train batch, criticise, edit, paraphrase."""
        texts, tag = pool.texts(parent), f"apo/{at[0]}/{at[1]}"
        results = await host.evaluate(texts, _gradient_batch(host, settings, at), tag, settings.rollout_batch_timeout)
        warm = settings.diversity_temperature
        sections = [
            ("module", slot.module),
            ("text", texts[slot.name]),
            ("feedback", wording.feedback(results)),
            ("memory", past),
        ]
        critique = (
            await host.complete(Role.PROPOSES, wording.request("critique", sections, tag=tag, temperature=warm))
        ).text
        if critique is None:
            return "", []
        sections = [("module", slot.module), ("text", texts[slot.name]), ("critique", critique)]
        edit = await host.complete(
            Role.PROPOSES, wording.request("edit", sections, tag=tag, temperature=warm, slot=slot)
        )
        made: list[str | None] = [edit.text]
        for copy in range(settings.copies if edit.text else 0):
            sections = [("module", slot.module), ("text", edit.text or "")]
            asked = wording.request("paraphrase", sections, tag=f"{tag}/{copy}", temperature=warm, slot=slot)
            made.append((await host.complete(Role.PROPOSES, asked)).text)
        return critique, made


def _gradient_batch(host: Host, settings: ApoSettings, at: tuple[int, int]) -> list[Example]:
    train = host.examples("train")
    if not settings.enable_gradient_mini_batch:
        return list(train)
    return sample(host.rng("apo/batch", *at), train, settings.gradient_batch_size)


async def _on_val_batch(host: Host, settings: ApoSettings, pool: Pool, candidates: Sequence[int], n: int) -> list[int]:
    """`candidates` by their score on this round's val batch, best first; older ones win ties."""
    batch = sample(host.rng("apo/val", n), host.examples("val"), settings.val_batch_size)
    found: list[list[Result]] = await together(
        [
            lambda k=k: host.evaluate(pool.texts(k), batch, f"round{n}", settings.rollout_batch_timeout)
            for k in candidates
        ]
    )
    scores = dict(zip(candidates, (score_of(results, host.floor) for results in found), strict=True))
    return sorted(candidates, key=lambda k: (-scores[k][0], -scores[k][1], k))


def _stop(settings: ApoSettings, state: State) -> str:
    best = state["best"][1]
    if state["n"] >= settings.beam_rounds:
        return f"all {settings.beam_rounds} rounds are done"
    if (
        settings.score_threshold is not None
        and best is not None
        and best[0] == 0
        and best[1] >= settings.score_threshold
    ):
        return f"the target score {settings.score_threshold:g} is reached"
    if settings.patience and state["stale"] >= settings.patience:
        return f"{state['stale']} rounds in a row gained less than {settings.min_improvement_threshold:g}"
    return ""


def _of_round(settings: ApoSettings, beam: int, train: int, val: int) -> int:
    """The most rollouts that a round takes."""
    branches = settings.width * settings.branch_factor
    batch = settings.gradient_batch_size if settings.enable_gradient_mini_batch else train
    candidates = beam + branches * (1 + settings.copies)
    return branches * batch + candidates * min(settings.val_batch_size, val) + val


def _check_budget(host: Host, settings: ApoSettings, beam: int) -> None:
    """A round runs concurrently: all of it must fit, or what is run would depend on timing."""
    left = host.remaining().rollouts
    needed = _of_round(settings, beam, len(host.examples("train")), len(host.examples("val")))
    if left is not None and needed > left:
        raise BudgetError("rollouts", limit=left, used=0, asked=needed)
