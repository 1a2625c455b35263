"""The dspy side of `hosts.dspy`: the run's program as a module, its metric, and the run's models as an engine."""

# pyright: basic
# the package's objects have no types where this is checked, and it is not installed there
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import dspy  # pyright: ignore  # an extra
from dspy import lm15  # pyright: ignore
from dspy.utils.callback import BaseCallback  # pyright: ignore

from harness.errors import AgentError, StropError
from harness.optimizer.base import Example, Part, Result, Role, Slot, Texts
from harness.optimizer.frame import Frame, frame_of
from harness.optimizer.hosts.bridge import Bridge, named
from harness.optimizer.hosts.dspy import KEY, DspySettings, demos_text, predictors, split
from harness.optimizer.hosts.quiet import quiet
from harness.optimizer.slots import demo_slot, editable, seed_texts
from harness.records import Status
from harness.streams import derive

api = cast("Any", dspy)
wire = cast("Any", lm15)
Callback = cast("Any", BaseCallback)


class Engine:
    """A role's model as dspy's engine: every call is the run's."""

    def __init__(self, bridge: Bridge, role: Role, purpose: str) -> None:
        self.bridge, self.role, self.purpose = bridge, role, purpose

    def complete(self, request: Any) -> Any:
        """dspy's `complete(Request) -> Response`."""
        messages: list[tuple[str, str]] = []
        if request.system is not None:
            whole = request.system if isinstance(request.system, str) else "".join(p.text for p in request.system)
            messages.append(("system", whole))
        messages += [(message.role, message.text or "") for message in request.messages]
        temperature = request.config.temperature
        said = self.bridge.chat(self.role, messages, self.purpose, 0.0 if temperature is None else temperature)
        return wire.Response(
            id=None,
            model=request.model,
            message=wire.Message.assistant([wire.TextPart(said)]),
            finish_reason="stop",
            usage=wire.Usage(input_tokens=0, output_tokens=0, total_tokens=0),
        )

    def stream(self, request: Any) -> Any:
        """The whole reply as one."""
        return wire.response_to_events(self.complete(request))

    def close(self) -> None:
        """Nothing of dspy's is held."""

    def __deepcopy__(self, memo: object) -> Engine:
        return self


def model(bridge: Bridge, role: Role, purpose: str) -> Any:
    """A `dspy.LM` over the run's model of that role, its cache off."""
    return api.LM(f"strop/{role.value}", engine=Engine(bridge, role, purpose), cache=False, num_retries=0)


class Unparsed(Callback):
    """Counts the replies that dspy itself cannot read; those without any text were counted as they came."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge, self.texts = bridge, cast("dict[str, str]", {})

    def on_adapter_parse_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        self.texts[call_id] = str(inputs.get("completion") or "")

    def on_adapter_parse_end(self, call_id: str, outputs: Any, exception: Exception | None = None) -> None:
        said = self.texts.pop(call_id, "")
        role = str(getattr(api.settings.lm, "model", "")).removeprefix("strop/")
        if exception is not None and said.strip() and role in set(Role):
            self.bridge.unusable(Role(role), "not in the form that dspy asked for")


class Course:
    """What all copies of a hosted module share: the bridge, the examples, the slots."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge, self.host = bridge, bridge.host
        self.seed = seed_texts(bridge.host)
        self.slots: dict[str, Slot] = {}
        self.frames: dict[str, Frame] = {}
        self.examples: dict[str, Example] = {}
        parts: tuple[Part, ...] = ("train", "val")
        for part in parts:
            for example in self.host.examples(part):
                self.examples[example.key] = example

    def __deepcopy__(self, memo: object) -> Course:
        return self

    def lay(self, module: Any, slots: dict[str, Slot]) -> None:
        """The slots' instructions into a module's predictors."""
        self.slots = slots
        for name, predictor in module.named_predictors():
            slot = slots[name]
            self.frames[slot.name] = frame_of(slot)
            predictor.signature = predictor.signature.with_instructions(self.frames[slot.name].within(slot.text))

    def texts(self, module: Any) -> Texts:
        """The candidate a module's predictors make."""
        texts, demos = dict(self.seed), cast("list[Any]", [])
        for name, predictor in module.named_predictors():
            slot = self.slots[name]
            before, now = self.frames[slot.name].within(slot.text), predictor.signature.instructions
            texts[slot.name] = slot.text if now.strip() == before.strip() else self.frames[slot.name].around(now)
            demos = demos or list(predictor.demos)
        return {**texts, **demos_text(self.host, demos, self.examples)}


class Program(api.Module):
    """The run's program, or a user's in its place."""

    def __init__(self, course: Course, own: Any, metric: Callable[..., Any] | None) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.course, self.own, self.metric = course, own, metric
        if own is None:
            inputs = list(next(iter(course.examples.values())).inputs)
            for number, slot in enumerate(editable(course.host)):
                fields = {name: (str, api.InputField()) for name in inputs if name.isidentifier()}
                signature = api.Signature({**fields, "output": (str, api.OutputField())}, slot.text)
                setattr(self, f"slot{number}", api.Predict(signature))
            slots = dict(zip((n for n, _ in self.named_predictors()), editable(course.host), strict=True))
            course.lay(self, slots)

    def forward(self, example_id: str = "", **inputs: Any) -> Any:
        """One rollout."""
        example = self.course.examples.get(example_id)
        if example is None:
            raise AgentError("dspy asked for an example that the run does not have")
        if self.own is not None:
            return self._own(example, inputs)
        result = self.course.bridge.run(self.course.texts(self), example)
        trace = api.settings.trace
        for name, predictor in self.named_predictors():
            slot = self.course.slots[name]
            said = next((c.said for c in result.trace if c.module == slot.module), "")
            if trace is not None:
                trace.append((predictor, {**inputs, KEY: example.key}, api.Prediction(output=said)))
        output = result.trace[-1].said if result.trace else ""
        return api.Prediction(output=output, score=self._told(result), feedback=result.feedback)

    def _own(self, example: Example, inputs: dict[str, Any]) -> Any:
        made: list[Any] = []

        def run() -> Result:
            try:
                made.append(self.own(**inputs))
                score, said = scored(self.metric, _gold(example), made[-1])
            except StropError:
                raise
            except Exception as error:
                return Result(example.key, Status.AGENT_ERROR, None, f"it failed: {error!r}"[:600])
            return Result(example.key, Status.OK, score, said)

        result = self.course.bridge.run_own(self.course.texts(self), example, run)
        prediction = made[-1] if made and result.score is not None else api.Prediction()
        prediction.strop_score, prediction.strop_feedback = self._told(result), result.feedback
        return prediction

    def _told(self, result: Result) -> float:
        return self.course.bridge.worst() if result.score is None else result.score


def scored(metric: Callable[..., Any] | None, gold: Any, prediction: Any, *more: Any) -> tuple[float, str]:
    """(score, feedback) of a user's metric, or exact equality of every expected field."""
    if metric is None:
        wanted = {name: value for name, value in gold.labels().toDict().items() if name != KEY}
        said = prediction.toDict()
        return float(all(str(said.get(key)).strip() == str(value).strip() for key, value in wanted.items())), ""
    given = metric(gold, prediction, *more)
    score = getattr(given, "score", given)
    return float(score), str(getattr(given, "feedback", "") or "")


def compiled(bridge: Bridge, settings: DspySettings) -> None:
    """Run one of dspy's optimizers to its end; what it scored is in the bridge's pool."""
    chosen, made, ran = split(settings, api)
    course = Course(bridge)
    own = named(settings.module, "module")() if settings.module else None
    metric = named(settings.metric, "metric") if settings.metric else None
    if own is not None:
        course.lay(own, predictors(settings, bridge.host, own))
    program = Program(course, own, metric)
    if own is not None:
        named_anew = [name for name, _ in program.named_predictors()]
        course.slots = dict(zip(named_anew, course.slots.values(), strict=True))
    served, proposing = model(bridge, Role.SERVES, "serve"), model(bridge, Role.PROPOSES, "instruct")
    seed = derive(settings.seed, "dspy", int(bridge.host.rng("dspy").integers(2**31))) % 2**31
    given = {
        "metric": _metric(bridge, program),
        "prompt_model": proposing,
        "task_model": served,
        "reflection_lm": proposing,
        "seed": seed,
        "num_threads": settings.threads,
    }
    if demo_slot(bridge.host) is None:
        given |= {"max_bootstrapped_demos": 0, "max_labeled_demos": 0}
    given |= {"auto": None} if made.keys() & {"num_candidates", "max_metric_calls", "max_full_evals"} else {}
    evaluates = {"num_threads": settings.threads, "display_progress": False}
    train, val = ([_gold(one) for one in bridge.host.examples(part)] for part in ("train", "val"))
    asked = {"trainset": train, "valset": val, "seed": seed, "eval_kwargs": evaluates, "requires_permission": None}
    takes, compiles = _takes(chosen.__init__), _takes(chosen.compile)
    heard = [*api.settings.callbacks, Unparsed(bridge)]
    with quiet(), api.context(lm=served, num_threads=settings.threads, callbacks=heard):
        optimizer = chosen(**{key: value for key, value in given.items() if key in takes and key not in made}, **made)
        optimizer.compile(program, **{k: v for k, v in asked.items() if k in compiles and k not in ran}, **ran)


def _metric(bridge: Bridge, program: Program) -> Callable[..., Any]:
    """The score of the rollout itself. While dspy collects demos, a user's metric is asked again, with the trace."""
    judging = model(bridge, Role.EVALUATES, "evaluate")

    def metric(gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None) -> Any:
        score, feedback = _known(pred, bridge.worst())
        if program.own is not None and program.metric is not None and trace is not None and pred_name is None:
            with api.context(lm=judging):
                return program.metric(gold, pred, trace)
        return api.Prediction(score=score, feedback=feedback) if pred_name is not None else score

    return metric


def _known(pred: Any, worst: float) -> tuple[float, str]:
    """A prediction that dspy made up for a failure has no score of ours."""
    for score, feedback in (("strop_score", "strop_feedback"), ("score", "feedback")):
        if isinstance(getattr(pred, score, None), float | int):
            return float(getattr(pred, score)), str(getattr(pred, feedback, ""))
    return worst, ""


def _gold(example: Example) -> Any:
    wanted = example.expected if isinstance(example.expected, dict) else {"output": example.expected}
    label = {name: value for name, value in wanted.items() if name not in example.inputs}
    return api.Example(**dict(example.inputs), **label, **{KEY: example.key}).with_inputs(*example.inputs, KEY)


def _takes(function: Any) -> Sequence[str]:
    import inspect  # noqa: PLC0415

    return list(inspect.signature(function).parameters)
