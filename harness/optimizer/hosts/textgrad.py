"""textgrad (0.1.8) as an optimizer: its variables, backward pass and descent, unchanged, over the run's rollouts.

Each step builds a graph for every example of a train minibatch, from the slots' variables through the program's reply
to the loss, which is the rollout's feedback; textgrad's own backward pass and `TextualGradientDescent` do the rest, and
with `gate` the step is kept only if the same examples score no worse. `engine` may name a user's own `EngineLM`: it is
called as it is, with the gateway as `OPENAI_BASE_URL`.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, cast

from pydantic import Field

from harness.errors import MissingEnvironmentError
from harness.optimizer.base import Done, Given, Host, Refusal, Role, State, Texts
from harness.optimizer.hosts.bridge import Bridge, in_thread, named
from harness.optimizer.pool import score_of
from harness.optimizer.settings import Settings
from harness.optimizer.slots import editable, sample, seed_texts
from harness.records import Json


class TextgradPackageSettings(Settings):
    """`constraints` are told to its optimizer as they stand."""

    steps: int = Field(default=8, ge=1)
    minibatch: int = Field(default=4, ge=1)
    gate: bool = True
    constraints: tuple[str, ...] = ()
    engine: str = ""


class TextgradPackage:
    """The textgrad package, hosted step by step."""

    name = "textgrad-package"

    def check(self, config: Mapping[str, Json]) -> None:
        """See `Optimizer`."""
        TextgradPackageSettings.read(config)

    def needs(self, given: Given, config: Mapping[str, Json]) -> int:
        """See `Foresees`."""
        settings = TextgradPackageSettings.read(config)
        package()
        editable(given)
        if settings.engine:
            named(settings.engine, "engine")
        return 2 * min(settings.minibatch, given.train)

    async def start(self, host: Host, config: Mapping[str, Json]) -> State:
        """Nothing is spent yet. Raises MissingEnvironmentError without the package."""
        settings = TextgradPackageSettings.read(config)
        package()
        editable(host)
        texts = seed_texts(host)
        return {"settings": settings.model_dump(mode="json"), "n": 0, "texts": texts, "kept": [texts]}

    async def step(self, host: Host, state: State) -> State | Done:
        """One step of descent: kept, or forgotten when the gate says so."""
        settings = TextgradPackageSettings.read(state["settings"])
        n: int = state["n"] + 1
        if n > settings.steps:
            return Done(state, f"all {settings.steps} steps are done", self.nominees(state))
        from harness.optimizer.hosts.textgrad_graph import descended  # noqa: PLC0415  imports textgrad

        texts: Texts = dict(state["texts"])
        batch = sample(host.rng("textgrad-package", n), host.examples("train"), settings.minibatch)
        before = await host.evaluate(texts, batch, f"step{n}")
        bridge = Bridge.of(host, f"textgrad/{n}", texts)
        bridge.pool.record(0, before)
        made = await in_thread(bridge, lambda: descended(bridge, settings, texts, batch, before))
        if bridge.failed:
            return Done(state, bridge.failed, self.nominees(state))
        if made is None and not bridge.spent:
            host.unusable(Role.PROPOSES, "no new text between its tags")
        child = texts if made is None else bridge.admitted(made)
        if isinstance(child, Refusal) or child == texts:
            return Done(state, bridge.over, self.nominees(state)) if bridge.spent else {**state, "n": n}
        after = await host.evaluate(child, batch, f"step{n}")
        if settings.gate and score_of(after, host.floor) < score_of(before, host.floor):
            return {**state, "n": n}
        return {**state, "n": n, "texts": child, "kept": [*state["kept"], child]}

    def nominees(self, state: State) -> tuple[Texts, ...]:
        """Every kept step, the last first."""
        return tuple(reversed(state["kept"]))


def package() -> Any:
    """textgrad itself; it keeps a log where TEXTGRAD_LOG_DIR asks for one. Raises MissingEnvironmentError."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # litellm fetches a price list when it is imported
    try:
        with _no_log():
            return cast("Any", import_module("textgrad"))
    except ImportError as error:
        raise MissingEnvironmentError(
            "the textgrad package",
            reason="is not installed",
            mend="pip install 'strop[textgrad]', or take --agent textgrad",
        ) from error


class _Unopened(logging.FileHandler):
    """A handler that makes its file at the first record, and not before."""

    def __init__(self, filename: str, *more: Any, **named: Any) -> None:
        super().__init__(filename, *more, **{**named, "delay": True})


@contextmanager
def _no_log() -> Generator[None]:
    """textgrad opens a log file when it is imported: without a place asked for there is to be none, anywhere."""
    if "TEXTGRAD_LOG_DIR" in os.environ:
        yield
        return
    before, logging.FileHandler = logging.FileHandler, _Unopened
    os.environ["TEXTGRAD_LOG_DIR"] = tempfile.gettempdir()
    try:
        yield
    finally:
        logging.FileHandler = before
        del os.environ["TEXTGRAD_LOG_DIR"]
        logger = logging.getLogger("textgrad")
        for handler in [one for one in logger.handlers if isinstance(one, _Unopened)]:
            logger.removeHandler(handler)
            handler.close()
