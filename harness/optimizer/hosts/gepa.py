"""The gepa package (0.1.x) as an optimizer: its own engine, unchanged, over the run's rollouts and models.

`adapter` may name a user's GEPAAdapter (`module:Name`): its `make_reflective_dataset` and `propose_new_texts` are used
as they are, while evaluation stays the run's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Literal, cast

from pydantic import Field

from harness.errors import MissingEnvironmentError
from harness.optimizer.base import Done, Example, Given, Host, Result, State, Texts
from harness.optimizer.hosts.bridge import Bridge, in_thread, named
from harness.optimizer.settings import Settings
from harness.optimizer.slots import editable, seed_texts
from harness.records import Json
from harness.streams import derive


class GepaPackageSettings(Settings):
    """Passed on to `gepa.optimize` under its own names; the run's budget stands whatever `max_metric_calls` says."""

    max_metric_calls: int = Field(default=0, ge=0)
    reflection_minibatch_size: int = Field(default=3, ge=1)
    candidate_selection_strategy: Literal["pareto", "current_best", "epsilon_greedy"] = "pareto"
    use_merge: bool = False
    skip_perfect_score: bool = True
    perfect_score: float = 1.0
    seed: int = 0
    adapter: str = ""


class GepaPackage:
    """`gepa.optimize`, hosted."""

    name = "gepa-package"

    def check(self, config: Mapping[str, Json]) -> None:
        """See `Optimizer`."""
        GepaPackageSettings.read(config)

    def needs(self, given: Given, config: Mapping[str, Json]) -> int:
        """See `Foresees`."""
        settings = GepaPackageSettings.read(config)
        _package()
        editable(given)
        if settings.adapter:
            named(settings.adapter, "adapter")
        return given.val + 2 * min(settings.reflection_minibatch_size, given.train)

    async def start(self, host: Host, config: Mapping[str, Json]) -> State:
        """Nothing is spent yet. Raises MissingEnvironmentError without the package."""
        settings = GepaPackageSettings.read(config)
        _package()
        editable(host)
        calls = settings.max_metric_calls or host.remaining().rollouts or 10**9
        return {"settings": settings.model_dump(), "n": 0, "calls": calls, "nominees": [seed_texts(host)]}

    async def step(self, host: Host, state: State) -> State | Done:
        """The whole of the package's run: it keeps no state that could be kept between steps."""
        if state["n"]:
            return Done(state, state.get("failed") or "gepa ended", self.nominees(state))
        settings = GepaPackageSettings.read(state["settings"])
        seed = seed_texts(host)
        bridge = Bridge.of(host, "gepa-package", seed)
        await in_thread(bridge, lambda: _optimize(bridge, settings, seed, state["calls"]))
        return {**state, "n": 1, "nominees": list(bridge.nominees()), **bridge.how()}

    def nominees(self, state: State) -> tuple[Texts, ...]:
        """Every candidate it scored, best first."""
        return tuple(state["nominees"])


class _Adapter:
    """The run as gepa's GEPAAdapter. gepa knows no failure: one is told as the worst score."""

    def __init__(self, bridge: Bridge, seed: Texts, user: Any) -> None:
        self.bridge, self.seed, self.user = bridge, seed, user
        self.propose_new_texts = getattr(user, "propose_new_texts", None)

    def evaluate(self, batch: list[Example], candidate: dict[str, str], capture_traces: bool = False) -> Any:
        results = self.bridge.evaluate({**self.seed, **candidate}, batch)
        worst = self.bridge.worst()
        if not results:
            scores = [worst for _ in batch]
            traces: list[dict[str, Any]] = [{"feedback": "the text was not admitted"} for _ in batch]
        else:
            scores = [worst if result.score is None else result.score for result in results]
            traces = [_trace(one, result) for one, result in zip(batch, results, strict=True)]
        outputs = [trace.get("output", "") for trace in traces]
        return _package().EvaluationBatch(outputs, scores, traces if capture_traces else None)

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Any, components_to_update: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        if self.user is not None:
            return self.user.make_reflective_dataset(candidate, eval_batch, components_to_update)
        traces = cast("list[dict[str, Any]]", eval_batch.trajectories or [])
        rows = [
            {"Inputs": one.get("inputs", ""), "Generated Outputs": one.get("output", ""), "Feedback": one["feedback"]}
            for one in traces
        ]
        return dict.fromkeys(components_to_update, rows)


def _optimize(bridge: Bridge, settings: GepaPackageSettings, seed: Texts, calls: int) -> None:
    host, package = bridge.host, _package()
    names = [slot.name for slot in editable(host)]

    def reflect(prompt: object) -> str:
        return bridge.complete(prompt if isinstance(prompt, str) else json.dumps(prompt))

    package.optimize(
        seed_candidate={name: seed[name] for name in names},
        trainset=list(host.examples("train")),
        valset=list(host.examples("val")),
        adapter=_Adapter(bridge, seed, named(settings.adapter, "adapter")() if settings.adapter else None),
        reflection_lm=reflect,
        max_metric_calls=calls,
        reflection_minibatch_size=settings.reflection_minibatch_size,
        candidate_selection_strategy=settings.candidate_selection_strategy,
        use_merge=settings.use_merge,
        skip_perfect_score=settings.skip_perfect_score,
        perfect_score=settings.perfect_score,
        logger=_Silent(),
        display_progress_bar=False,
        seed=derive(settings.seed, "gepa-package", int(host.rng("gepa-package").integers(2**31))) % 2**31,
        raise_on_exception=True,
    )


class _Silent:
    def log(self, message: str) -> None:
        """The run has a log of its own."""


def _trace(example: Example, result: Result) -> dict[str, Any]:
    said = "; ".join(call.said for call in result.trace)
    return {"inputs": json.dumps(dict(example.inputs)), "output": said, "feedback": result.feedback}


def _package() -> Any:
    try:
        return cast("Any", import_module("gepa"))
    except ImportError as error:
        raise MissingEnvironmentError(
            "the gepa package",
            reason="is not installed",
            mend="pip install 'strop[gepa]', or take --agent gepa",
        ) from error
