"""agentlightning (below 1) as an optimizer: its APO algorithm, store and runners, unchanged, over the run's rollouts.

Without a rollout of the user's, one rollout is one run of the subject's program. With `rollout`, a user's function
under `@agentlightning.rollout` (`(task, prompt_template | llm[, rollout])`) is run as it is: its task is the example
with its label, its model the run's, in the role `serves`, as `llm` and as `OPENAI_BASE_URL`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from pydantic import Field

from harness.errors import MissingEnvironmentError
from harness.optimizer.base import Done, Given, Host, Slot, State, Texts
from harness.optimizer.hosts.bridge import Bridge, in_thread, named
from harness.optimizer.settings import Settings
from harness.optimizer.slots import HasSlots, editable, known_slots, seed_texts
from harness.records import Json


class AgentLightningSettings(Settings):
    """APO's own settings under their own names. It optimizes one text: `slot`, or the first that may change.

    `runners` rollouts are under way at once.
    """

    gradient_batch_size: int = Field(default=4, ge=1)
    val_batch_size: int = Field(default=16, ge=1)
    beam_width: int = Field(default=4, ge=1)
    branch_factor: int = Field(default=4, ge=1)
    beam_rounds: int = Field(default=3, ge=1)
    rollout_batch_timeout: float = Field(default=3600.0, gt=0)
    run_initial_validation: bool = True
    diversity_temperature: float = Field(default=1.0, ge=0)
    runners: int = Field(default=1, ge=1)
    slot: str = ""
    rollout: str = ""


class AgentLightning:
    """agentlightning's APO, hosted."""

    name = "agentlightning"

    def check(self, config: Mapping[str, Json]) -> None:
        """See `Optimizer`."""
        AgentLightningSettings.read(config)

    def needs(self, given: Given, config: Mapping[str, Json]) -> int:
        """See `Foresees`."""
        settings = AgentLightningSettings.read(config)
        package()
        chosen(given, settings)
        if settings.rollout:
            named(settings.rollout, "rollout")
        return (given.val if settings.run_initial_validation else 0) + min(settings.gradient_batch_size, given.train)

    async def start(self, host: Host, config: Mapping[str, Json]) -> State:
        """Nothing is spent yet. Raises MissingEnvironmentError without the package, InputError for an unknown slot."""
        settings = AgentLightningSettings.read(config)
        package()
        chosen(host, settings)
        return {"settings": settings.model_dump(), "n": 0, "nominees": [seed_texts(host)]}

    async def step(self, host: Host, state: State) -> State | Done:
        """The whole of APO: it keeps no state that could be kept between steps."""
        if state["n"]:
            return Done(state, state.get("failed") or "agentlightning ended", self.nominees(state))
        from harness.optimizer.hosts.agentlightning_apo import ran  # noqa: PLC0415  imports agentlightning

        settings = AgentLightningSettings.read(state["settings"])
        bridge = Bridge.of(host, "agentlightning", seed_texts(host))
        await in_thread(bridge, lambda: ran(bridge, settings))
        return {**state, "n": 1, "nominees": list(bridge.nominees()), **bridge.how()}

    def nominees(self, state: State) -> tuple[Texts, ...]:
        """Every candidate it scored, best first."""
        return tuple(state["nominees"])


def chosen(host: HasSlots, settings: AgentLightningSettings) -> Slot:
    """The slot whose text is optimized. Raises InputError."""
    known_slots(host, [settings.slot], "slot")
    return next(slot for slot in editable(host) if settings.slot in ("", slot.name))


def package() -> Any:
    """agentlightning itself. Raises MissingEnvironmentError."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # litellm fetches a price list when it is imported
    try:
        return cast("Any", import_module("agentlightning"))
    except ImportError as error:
        raise MissingEnvironmentError(
            "the agentlightning package",
            reason="is not installed",
            mend="pip install 'strop[agentlightning]', or take --agent apo",
        ) from error
