"""The agentlightning side of `hosts.agentlightning`: an agent, a store, runners and APO in one thread of ours."""

# pyright: basic
# the package's objects have no types where this is checked, and it is not installed there
from __future__ import annotations

import asyncio
import inspect
import logging
import random
import re
import threading
import warnings
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import agentlightning  # pyright: ignore  # an extra
import agentlightning.algorithm.utils as batches  # pyright: ignore
from agentlightning.algorithm.apo import apo  # pyright: ignore
from agentlightning.execution.events import ThreadingEvent  # pyright: ignore
from agentlightning.runner.agent import LitAgentRunner  # pyright: ignore
from agentlightning.tracer import base as tracing  # pyright: ignore
from agentlightning.tracer.dummy import DummyTracer  # pyright: ignore

from harness.errors import StropError
from harness.optimizer.admit import unwrap
from harness.optimizer.base import Call, Example, Refusal, Result, Role, Texts
from harness.optimizer.frame import Frame, frame_of
from harness.optimizer.hosts.agentlightning import AgentLightningSettings, chosen
from harness.optimizer.hosts.bridge import Bridge, named
from harness.optimizer.hosts.quiet import quiet
from harness.optimizer.slots import seed_texts
from harness.optimizer.template import render
from harness.records import Status

api = cast("Any", agentlightning)
_POLL_S = 0.02
_IDS = re.compile(r'"(rollout_id|attempt_id|trace_id|span_id|parent_id)":\s*"[^"]*"')
_TIMES = re.compile(r'"(start_time|end_time)":\s*[0-9.]+')


class Template(api.PromptTemplate):
    """A prompt template in which literal braces are text: only the task's own names are filled in."""

    def format(self, **values: Any) -> str:
        return render(self.template, "braces", values)


class Spans(cast("Any", DummyTracer)):
    """A tracer without a back end: what a user's function emits in this thread is kept for its reward."""

    def __init__(self) -> None:
        super().__init__()
        self.here = threading.local()

    @asynccontextmanager
    async def trace_context(self, *_: object, **__: object) -> AsyncGenerator[None]:
        yield

    def get_last_trace(self) -> list[Any]:
        return []

    def create_span(self, *args: Any, **named: Any) -> Any:
        span = super().create_span(*args, **named)
        getattr(self.here, "spans", []).append(span)
        return span


class Agent(api.LitAgent):
    """One rollout of the run's program, or of a user's own function, as a LitAgent."""

    def __init__(self, bridge: Bridge, settings: AgentLightningSettings) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.bridge, self.slot, self.seed = bridge, chosen(bridge.host, settings), seed_texts(bridge.host)
        self.own: Any = named(settings.rollout, "rollout") if settings.rollout else None
        self.frame = Frame() if self.own is not None else frame_of(self.slot)
        self.examples = {one.key: one for part in ("train", "val") for one in bridge.host.examples(cast("Any", part))}
        self.tracer_of_ours = Spans()

    def is_async(self) -> bool:
        return True

    async def rollout_async(self, task: Any, resources: Any, rollout: Any) -> Any:
        """A rollout as agentlightning asks for it: spans of what was said, and a reward."""
        result = await asyncio.to_thread(self.run, task, resources, rollout)
        score = self.bridge.worst() if result.score is None else result.score
        return [*(_span(call) for call in result.trace), api.emit_reward(float(score), propagate=False)]

    def run(self, task: Any, resources: Any, rollout: Any) -> Result:
        """The rollout itself. Raises BudgetError."""
        example = self.examples[task["id"]]
        texts = self.texts(resources["prompt_template"].template)
        if self.own is None:
            return self.bridge.run(texts, example)
        admitted = self.bridge.admitted(texts)
        template = texts if isinstance(admitted, Refusal) else admitted
        return self.bridge.run_own(texts, example, lambda: self._own(example, task, template[self.slot.name], rollout))

    def texts(self, template: str) -> Texts:
        """The candidate a template makes."""
        if template.strip() == self.frame.within(self.slot.text).strip():
            return dict(self.seed)
        return {**self.seed, self.slot.name: self.frame.around(unwrap(template))}

    def _own(self, example: Example, task: Any, template: str, rollout: Any) -> Result:
        try:
            given = self._given(template, rollout)
            self.tracer_of_ours.here.spans = emitted = cast("list[Any]", [])
            made = self.own(task, **given)
            made = asyncio.run(made) if inspect.iscoroutine(made) else made
            made = emitted if made is None else made
            score = made if isinstance(made, bool | int | float) else api.find_final_reward(made)
        except StropError:
            raise
        except Exception as error:
            return Result(example.key, Status.AGENT_ERROR, None, f"it failed: {error!r}"[:600])
        if score is None:
            return Result(example.key, Status.AGENT_ERROR, None, "its rollout gave no reward")
        return Result(example.key, Status.OK, float(score))

    def _given(self, template: str, rollout: Any) -> dict[str, Any]:
        takes = inspect.signature(getattr(self.own, "_rollout_func", self.own)).parameters
        at = self.bridge.endpoint(Role.SERVES) if "llm" in takes else None
        offered = {
            "prompt_template": Template(template=template, engine="f-string"),
            "llm": at and api.LLM(endpoint=at.base_url, model=at.model, api_key=at.api_key),
            "rollout": rollout,
        }
        return {name: value for name, value in offered.items() if name in takes}


class Client:
    """What APO asks of an AsyncOpenAI client, answered by the proposing model."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.create))

    async def create(self, *, model: str, messages: list[dict[str, Any]], temperature: float = 1.0) -> Any:
        """`model` is "critique" or "edit": which of the two APO wants."""
        said = [(str(message["role"]), steady(_text(message["content"]))) for message in messages]
        reply = await asyncio.to_thread(self.bridge.chat, Role.PROPOSES, said, model, temperature)
        message = SimpleNamespace(content=reply or None)
        return SimpleNamespace(choices=[SimpleNamespace(message=message)])


class _Brisk:
    """asyncio as APO sees it: it looks for finished rollouts every two seconds, which is long for a short rollout."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, _POLL_S))


def steady(prompt: str) -> str:
    """A prompt without the ids and times of its spans: they tell a model nothing, and no two runs have the same."""
    return _TIMES.sub(r'"\1":0', _IDS.sub(r'"\1":""', prompt))


def ran(bridge: Bridge, settings: AgentLightningSettings) -> None:
    """Run APO to its end; what it scored is in the bridge's pool."""
    draws = random.Random(int(bridge.host.rng("agentlightning").integers(2**31)))  # noqa: S311  draws, not secrets
    before = apo.random, batches.random, apo.asyncio  # pyright: ignore
    apo.random = batches.random = draws  # its draws come from the global generator, which others use too
    apo.asyncio = _Brisk()
    logger = logging.getLogger("agentlightning")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with quiet(), warnings.catch_warnings(), bridge.reachable(Role.SERVES):
            warnings.simplefilter("ignore")
            asyncio.run(_course(bridge, settings))
    finally:
        tracing.clear_active_tracer()
        apo.random, batches.random, apo.asyncio = before  # pyright: ignore
        logger.setLevel(level)


async def _course(bridge: Bridge, settings: AgentLightningSettings) -> None:
    store, agent = api.InMemoryLightningStore(), Agent(bridge, settings)
    own = {"rollout", "slot", "runners"}
    passed = {name: value for name, value in settings.model_dump().items() if name not in own}
    algorithm = api.APO(cast("Any", Client(bridge)), gradient_model="critique", apply_edit_model="edit", **passed)
    template = agent.frame.within(agent.slot.text)
    algorithm.set_store(store)
    adapter = api.TraceToMessages()  # an algorithm holds it weakly
    algorithm.set_adapter(adapter)
    algorithm.set_initial_resources({"prompt_template": api.PromptTemplate(template=template, engine="f-string")})
    tracing.set_active_tracer(agent.tracer_of_ours)
    stop = cast("Any", ThreadingEvent)()
    runners = [asyncio.create_task(_runner(number, agent, store, stop)) for number in range(settings.runners)]
    tasks = {part: [_task(one) for one in bridge.host.examples(cast("Any", part))] for part in ("train", "val")}
    try:
        await algorithm.run(train_dataset=tasks["train"], val_dataset=tasks["val"])
    finally:
        stop.set()
        await asyncio.gather(*runners, return_exceptions=True)


async def _runner(number: int, agent: Agent, store: Any, stop: Any) -> None:
    runner = cast("Any", LitAgentRunner)(
        agent.tracer_of_ours, poll_interval=_POLL_S, interval_jitter=0.0, heartbeat_launch_mode="asyncio"
    )
    runner.init(agent)
    runner.init_worker(number, store)
    try:
        await runner.iter(event=stop)
    finally:
        runner.teardown_worker(number)
        runner.teardown()


def _task(example: Example) -> dict[str, Any]:
    """An example with its label, as a user's task holds both."""
    label = example.expected if isinstance(example.expected, dict) else {"answer": example.expected}
    return {**label, **dict(example.inputs), "id": example.key}


def _span(call: Call) -> Any:
    said = {
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": call.given,
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": call.said,
    }
    return cast("Any", DummyTracer)().create_span(name=call.module or "program", attributes=said)


def _text(content: Any) -> str:
    parts = content if isinstance(content, list) else [content]
    return "\n".join(str(part.get("text", "")) if isinstance(part, dict) else str(part) for part in parts)
