"""dspy (3.4) as an optimizer: any of its teleprompters, unchanged, over the run's rollouts and models.

Without a module of the user's, the run's program is the module: each text slot is a predictor whose instruction it is,
and a forward pass is one rollout. With `module` (and `metric`), the user's own dspy program is run as it is, the
instructions of its predictors laid in from the slots and read back; a slot belongs to the predictor of its name.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from pydantic import ConfigDict, Field

from harness.errors import InputError, MissingEnvironmentError
from harness.optimizer.base import Done, Example, Given, Host, Slot, State, Texts
from harness.optimizer.hosts.bridge import Bridge, in_thread, named
from harness.optimizer.settings import Settings
from harness.optimizer.slots import demo_slot, editable, seed_texts
from harness.records import Json

KEY = "example_id"
HERE = {"metric", "prompt_model", "task_model", "reflection_lm", "student", "trainset", "valset", "teacher", "seed"}


class DspySettings(Settings):
    """`optimizer` is the name of one of dspy's (MIPROv2, GEPA, COPRO, SIMBA, BootstrapFewShotWithRandomSearch, ...).

    `module` and `metric` name a user's own (`package.module:Name`). `threads` of dspy's own run at once. All other keys
    go to that optimizer's constructor or `compile`, whichever takes them.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    optimizer: str = "MIPROv2"
    module: str = ""
    metric: str = ""
    threads: int = Field(default=1, ge=1)
    seed: int = 0

    @property
    def more(self) -> dict[str, Any]:
        """The keys that are dspy's."""
        return dict(self.model_extra or {})


class Dspy:
    """One of dspy's optimizers, hosted."""

    name = "dspy"

    def check(self, config: Mapping[str, Json]) -> None:
        """See `Optimizer`. What dspy's optimizer takes is only known where dspy is installed."""
        settings = DspySettings.read(config)
        if settings.metric and not settings.module:
            raise InputError("a metric without a module", key="agent.config.metric", mend="name the module too")
        if importlib.util.find_spec("dspy") is not None:
            split(settings, package())

    def needs(self, given: Given, config: Mapping[str, Json]) -> int:
        """See `Foresees`."""
        settings = DspySettings.read(config)
        split(settings, package())
        editable(given)
        for key in ("module", "metric"):
            if name := getattr(settings, key):
                named(name, key)
        return given.val

    async def start(self, host: Host, config: Mapping[str, Json]) -> State:
        """Nothing is spent yet. Raises MissingEnvironmentError without the package."""
        settings = DspySettings.read(config)
        package()
        editable(host)
        return {"settings": settings.model_dump(), "n": 0, "nominees": [seed_texts(host)]}

    async def step(self, host: Host, state: State) -> State | Done:
        """The whole of dspy's run: it keeps no state that could be kept between steps."""
        if state["n"]:
            return Done(state, state.get("failed") or "dspy ended", self.nominees(state))
        from harness.optimizer.hosts.dspy_program import compiled  # noqa: PLC0415  imports dspy

        settings = DspySettings.read(state["settings"])
        bridge = Bridge.of(host, "dspy", seed_texts(host))
        await in_thread(bridge, lambda: compiled(bridge, settings))
        return {**state, "n": 1, "nominees": list(bridge.nominees()), **bridge.how()}

    def nominees(self, state: State) -> tuple[Texts, ...]:
        """Every candidate it scored, best first."""
        return tuple(state["nominees"])


def split(settings: DspySettings, dspy: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The optimizer's class, and the settings its constructor and its `compile` take. Raises InputError."""
    chosen: Any = getattr(dspy, settings.optimizer, None)
    if not inspect.isclass(chosen) or not hasattr(chosen, "compile"):
        raise InputError(
            f"dspy has no optimizer {settings.optimizer!r}",
            key="agent.config.optimizer",
            mend="as in MIPROv2, GEPA, COPRO, SIMBA, BootstrapFewShot or BootstrapFewShotWithRandomSearch",
        )
    made_of = cast("Any", chosen)
    takes = _names(made_of.__init__)
    compiles = _names(made_of.compile)
    unknown = sorted(settings.more.keys() - takes - compiles)
    if unknown:
        raise InputError(
            f"{settings.optimizer} takes no such setting",
            key=f"agent.config.{unknown[0]}",
            mend=f"keys here: {', '.join(sorted((takes | compiles) - HERE))}",
        )
    made = {key: _value(value) for key, value in settings.more.items() if key in takes}
    ran = {key: _value(value) for key, value in settings.more.items() if key in compiles - takes}
    return made_of, made, ran


def package() -> Any:
    """dspy itself, its progress bars off. Raises MissingEnvironmentError."""
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # litellm fetches a price list when it is imported
    try:
        dspy = cast("Any", import_module("dspy"))
    except ImportError as error:
        raise MissingEnvironmentError(
            "the dspy package",
            reason="is not installed",
            mend="pip install 'strop[dspy]', or take --agent mipro",
        ) from error
    dspy.disable_logging()
    return dspy


def predictors(settings: DspySettings, host: Host, module: Any) -> dict[str, Slot]:
    """Which slot each of a user's predictors reads. Raises InputError when one of them has none."""
    found: dict[str, Slot] = {}
    slots = editable(host)
    names = [name for name, _ in module.named_predictors()]
    for name in names:
        own = {name, name.rpartition(".")[2], name.removesuffix(".predict")}
        slot = next((slot for slot in slots if slot.name in own or slot.module in own), None)
        if slot is None and len(slots) == len(names) == 1:
            slot = slots[0]
        if slot is None:
            raise InputError(
                f"no slot is called like the predictor {name!r} of {settings.module}",
                key="agent.config.module",
                mend=f"give a slot that name or module; slots here: {', '.join(slot.name for slot in slots)}",
            )
        found[name] = slot
    return found


def demos_text(host: Host, demos: list[Any], examples: Mapping[str, Example]) -> dict[str, str]:
    """dspy's worked examples as the demos slot holds them; nothing without such a slot, or without a demo."""
    slot = demo_slot(host)
    if slot is None or not demos:
        return {}
    rows: list[dict[str, Any]] = []
    for demo in demos:
        record = dict(demo)
        example = examples.get(str(record.get(KEY, "")))
        if example is not None:
            expected = _text(example.expected)
            output = _text(record.get("output", expected)) if record.get("augmented") else expected
            rows.append({"inputs": dict(example.inputs), "output": output, "expected": expected})
    return {slot.name: json.dumps(rows, ensure_ascii=False)} if rows else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _names(function: Any) -> set[str]:
    return {name for name in inspect.signature(function).parameters if name not in {"self", "kwargs", "_kwargs"}}


def _value(value: Any) -> Any:
    """Flags and files have no word for None."""
    return None if value == "none" else value
