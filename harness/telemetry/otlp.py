"""Spans of a run over OTLP, with the GenAI semantic conventions: run > step > rollout, and a span for each model call.

Needs the extra `telemetry`. Spans carry names, counts, costs and scores, and never what a model was asked or said.
https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context

from harness.events import Event, RolloutFinished, RootMeasured, RunFinished, RunStarted, TicketDecided, TicketStarted
from harness.model.base import TASK, Caller, Seen
from harness.model.pricing import NANO
from harness.records import RolloutKey
from harness.telemetry.base import ended
from harness.version import VERSION

Value = str | bool | int | float
EXPORT_S, CLOSE_S = 5.0, 12.0
_OPERATION = {
    "completions": "text_completion",
    "embeddings": "embeddings",
    "gemini-embeddings": "embeddings",
    "gemini": "generate_content",
}
_DIALECT = {"messages": "anthropic", "gemini": "gcp.gemini", "gemini-embeddings": "gcp.gemini"}
_HOST = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "api.deepseek.com": "deepseek",
    "api.mistral.ai": "mistral_ai",
    "api.groq.com": "groq",
    "api.perplexity.ai": "perplexity",
    "api.x.ai": "x_ai",
}


class OtlpWatcher:
    """A `Watcher` that sends spans. `endpoint` is a collector's base URL; empty, the environment says it."""

    def __init__(self, run_id: str, agent: str, endpoint: str = "") -> None:
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())  # what is lost is told at the end, once
        url = None if not endpoint else _traces(endpoint)
        self._exporter = _Counting(OTLPSpanExporter(endpoint=url, timeout=EXPORT_S))
        resource = Resource.create({"service.name": "strop", "service.version": VERSION, "strop.run_id": run_id})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter, schedule_delay_millis=1000))
        self._tracer = self._provider.get_tracer("strop", VERSION)
        self._run_id, self._agent = run_id, agent
        self._metric = ""
        self._run: Span | None = None
        self._steps: dict[int, Span] = {}
        self._rollouts: dict[RolloutKey, Span] = {}
        self._callers: dict[tuple[int, str], Span] = {}

    def event(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._metric = event.metric
                told: dict[str, Value] = {
                    "strop.subject": event.subject,
                    "strop.seed": event.seed,
                    "strop.workers": event.workers,
                    "strop.isolation": event.isolation,
                    "strop.resumed": event.resumed,
                }
                self._run = self._begin(f"strop.run {self._run_id}", None, {**told, **self._named()})
            case RootMeasured():
                self._note(self._run, {"strop.root.score": event.score, "strop.deterministic": event.deterministic})
            case TicketStarted():
                told = {"strop.ticket": event.ticket, "strop.parent": event.parent, **self._named()}
                self._steps[event.ticket] = self._begin(f"strop.step {event.ticket}", self._run, told)
            case TicketDecided():
                self._decided(event)
            case RolloutFinished():
                self._ran(event)
            case RunFinished():
                self._note(self._run, {"strop.state": str(event.summary.get("state"))})
            case _:
                pass

    def rollout(self, key: RolloutKey, caller: Caller) -> None:
        told: dict[str, Value] = {
            "strop.ticket": key.ticket,
            "strop.split": key.split.value,
            "strop.purpose": key.purpose,
            "strop.repeat": key.repeat,
            "strop.tree": key.tree[:12],
        }
        if key.example:
            told["strop.example"] = key.example
        span = self._begin(f"strop.rollout {key.split}", self._steps.get(key.ticket) or self._run, told)
        self._rollouts[key] = self._callers[caller.ticket, caller.variant] = span

    def call(self, seen: Seen) -> None:
        caller, spent = seen.caller, seen.spent
        parent = self._callers.get((caller.ticket, caller.variant)) if caller.role == TASK else None
        parent = parent or self._steps.get(caller.ticket) or self._run
        operation = _OPERATION.get(seen.dialect, "chat")
        where = urlsplit(seen.base_url)
        told: dict[str, Value] = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": _HOST.get(where.hostname or "") or _DIALECT.get(seen.dialect, "openai"),
            "gen_ai.request.model": seen.model,
            "gen_ai.request.max_tokens": seen.most_out,
            "gen_ai.agent.name": caller.role,
            "gen_ai.usage.input_tokens": spent.tokens_in,
            "gen_ai.usage.output_tokens": spent.tokens_out,
            "gen_ai.usage.cache_read.input_tokens": seen.cached_in,
            "llm.cost.total": spent.nano_usd / NANO,
            "server.address": where.hostname or "",
            "server.port": where.port or (443 if where.scheme == "https" else 80),
            "strop.ticket": caller.ticket,
            "strop.role": caller.role,
            "strop.variant": caller.variant,
            "strop.tries": spent.requests,
            "strop.estimated": spent.estimated,
        }
        if seen.error:
            told["error.type"] = seen.error
        span = self._begin(f"{operation} {seen.model}", parent, told, kind=SpanKind.CLIENT, at=seen.began_ns)
        if seen.error:
            span.set_status(Status(StatusCode.ERROR, seen.error))
        span.end()

    async def close(self) -> str:
        for span in (*self._rollouts.values(), *self._steps.values(), *([self._run] if self._run else [])):
            span.end()
        shut = threading.Thread(target=self._provider.shutdown, daemon=True, name="strop spans")
        shut.start()
        if not await ended(shut, CLOSE_S):
            return f"telemetry: the collector did not take the last spans within {CLOSE_S:g} s"
        lost = self._exporter.lost
        return f"telemetry: {lost} spans could not be delivered over OTLP" if lost else ""

    def _begin(
        self,
        name: str,
        parent: Span | None,
        told: Mapping[str, Value],
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        at: int | None = None,
    ) -> Span:
        context = None if parent is None else set_span_in_context(parent)
        return self._tracer.start_span(name, context, kind, dict(told), start_time=at or time.time_ns())

    def _decided(self, event: TicketDecided) -> None:
        span = self._steps.pop(event.decision.ticket, None)
        told: dict[str, Value] = {
            "strop.verdict": event.decision.verdict.value,
            "strop.incumbent": event.incumbent,
            "strop.incumbent.score": event.incumbent_score,
        }
        if event.decision.variant is not None:
            told["strop.variant"] = event.decision.variant
        self._note(span, {**told, **self._scored(event.score)})
        if span is not None:
            span.end()

    def _ran(self, event: RolloutFinished) -> None:
        span = self._rollouts.pop(event.key, None)
        if span is None:
            return
        self._callers = {caller: one for caller, one in self._callers.items() if one is not span}
        outcome = event.outcome
        told: dict[str, Value] = {"strop.status": outcome.status.value, "strop.cpu_s": outcome.cpu_s}
        self._note(span, {**told, **self._scored(outcome.score)})
        span.end()

    def _named(self) -> dict[str, Value]:
        return {"gen_ai.agent.name": self._agent}

    def _scored(self, score: float | None) -> dict[str, Value]:
        if score is None:
            return {}
        return {"gen_ai.evaluation.name": self._metric, "gen_ai.evaluation.score.value": score}

    def _note(self, span: Span | None, told: Mapping[str, Value]) -> None:
        if span is not None:
            span.set_attributes(dict(told))


class _Counting(SpanExporter):
    """A `SpanExporter` that counts what could not be delivered."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner
        self.lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._inner.export(spans)
        except Exception:
            self.lost += len(spans)
            raise
        if result is not SpanExportResult.SUCCESS:
            self.lost += len(spans)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)


def _traces(endpoint: str) -> str:
    """The address for traces at a collector whose base URL is `endpoint`."""
    bare = endpoint.rstrip("/")
    return bare if bare.endswith("/v1/traces") else f"{bare}/v1/traces"
