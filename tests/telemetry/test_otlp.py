"""Spans over OTLP, received by a real HTTP server and read with the protocol's own messages."""

import gzip
import threading
from collections import defaultdict
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from research.test_models import KEY, better, settings
from support.toy import make_toy

from harness import open_run
from harness.errors import InputError
from harness.events import Notice
from harness.policy.schema import Policy
from harness.testing.scripted_model import ScriptedModel

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra `telemetry` is not installed")


class Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        data = self.rfile.read(int(self.headers["content-length"]))
        data = gzip.decompress(data) if self.headers.get("content-encoding") == "gzip" else data
        self.server.told.append((self.path, dict(self.headers), data))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_):
        pass


@contextmanager
def collector(status=200):
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        server.told, server.status = [], status
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def spans(server):
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    found = []
    for _, _, data in server.told:
        request = ExportTraceServiceRequest.FromString(data)
        found += [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
    return found


def told(span):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    monkeypatch.setenv("TOY_KEY", KEY)
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


async def run_of(tmp_path, otlp, **overrides):
    async with ScriptedModel(better) as model:
        opening = open_run(
            make_toy(tmp_path / "toy"),
            workers=2,
            overrides=settings(model, **{"telemetry.otlp": otlp, **overrides}),
            runs=tmp_path / "runs",
        )
        async with opening as run:
            return [event async for event in run.events], run, model


async def test_a_run_is_told_in_genai_terms_without_texts_keys_or_hidden_scores(tmp_path):
    with collector() as (server, url):
        _, _, model = await run_of(tmp_path, url, **{"budget.steps": 2})
        found = spans(server)
        sent = b"".join(data for _, _, data in server.told)
    assert {path for path, _, _ in server.told} == {"/v1/traces"}
    kinds = defaultdict(list)
    for span in found:
        kinds[span.name.split(" ")[0]].append(span)
    assert {kind: len(some) for kind, some in kinds.items() if kind != "strop.rollout"} == {
        "strop.run": 1,
        "strop.step": 2,
        "chat": 2,
    }
    (whole,) = kinds["strop.run"]
    steps = {span.span_id: span for span in kinds["strop.step"]}
    assert whole.parent_span_id == b""
    assert {span.trace_id for span in found} == {whole.trace_id}
    assert {span.parent_span_id for span in steps.values()} == {whole.span_id}
    assert {span.parent_span_id for span in kinds["strop.rollout"]} <= {*steps, whole.span_id}
    assert {span.parent_span_id for span in kinds["chat"]} == set(steps)
    assert all(whole.start_time_unix_nano <= span.start_time_unix_nano < span.end_time_unix_nano for span in found)

    calls = [told(span) for span in kinds["chat"]]
    assert sum(call["gen_ai.usage.input_tokens"] for call in calls) == model.served.tokens_in
    assert sum(call["gen_ai.usage.output_tokens"] for call in calls) == model.served.tokens_out
    assert calls[0]["gen_ai.operation.name"] == "chat"
    assert calls[0]["gen_ai.provider.name"] == "openai"
    assert calls[0]["gen_ai.request.model"] == "m"
    assert calls[0]["gen_ai.agent.name"] == "proposer"
    assert calls[0]["llm.cost.total"] == 0.0
    assert told(whole)["strop.state"] == "finished"
    kept = [told(span) for span in steps.values() if told(span)["strop.verdict"] == "kept"]
    assert kept
    assert all(one["gen_ai.evaluation.score.value"] >= 0 for one in kept)

    # neither a hidden score nor a key nor a word of what was said
    hidden = [told(span) for span in found if told(span).get("strop.split") in {"holdout", "vault"}]
    assert hidden
    assert not any("gen_ai.evaluation.score.value" in one for one in hidden)
    assert KEY.encode() not in sent
    assert b"SEARCH" not in sent


async def test_evaluated_agents_calls_hang_below_their_rollout():
    from harness.events import RolloutFinished, RunStarted, TicketStarted
    from harness.model.base import TASK, Caller, Seen
    from harness.records import Outcome, RolloutKey, Spend, Split, Status
    from harness.telemetry.otlp import OtlpWatcher

    key, caller = RolloutKey("t" * 40, Split.VISIBLE, 0, 3), Caller(3, TASK, "tttt/screen/visible/0")
    with collector() as (server, url):
        watcher = OtlpWatcher("run", "chat", url)
        watcher.event(RunStarted("run", "", "toy", "loss", "min", 0, 1, 4, "embedded", False))
        watcher.event(TicketStarted(3, "v0"))
        watcher.rollout(key, caller)
        watcher.call(Seen(caller, "gpt-x", "https://api.openai.com/v1", "responses", 9, 1, Spend(2, 3, 4, 5), 1, "429"))
        watcher.event(RolloutFinished(key, Outcome(Status.OK, 0.5)))
        assert await watcher.close() == ""
        by_name = {span.name.split(" ")[0]: span for span in spans(server)}
    assert by_name["chat"].parent_span_id == by_name["strop.rollout"].span_id
    assert by_name["strop.rollout"].parent_span_id == by_name["strop.step"].span_id
    call = told(by_name["chat"])
    assert (call["error.type"], call["strop.tries"], call["server.port"]) == ("429", 2, 443)
    assert call["gen_ai.usage.cache_read.input_tokens"] == 1
    assert told(by_name["strop.rollout"])["gen_ai.evaluation.score.value"] == 0.5


async def test_a_collector_that_refuses_or_is_not_there_hurts_no_run_and_is_told(tmp_path):
    with collector(status=400) as (_, url):
        events, run, _ = await run_of(tmp_path, url, **{"budget.steps": 1})
    assert run.summary["state"] == "finished"
    assert ["could not be delivered" in event.text for event in events if isinstance(event, Notice)] == [True]


async def test_true_means_the_environments_endpoint(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="nobody says where"):
        await run_of(tmp_path / "a", True)
    with collector() as (server, url):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        await run_of(tmp_path / "b", True, **{"budget.steps": 1})
        assert spans(server)


@pytest.mark.parametrize("bad", ["collector:4318", "http://user:secret@host/", "ftp://x"])
def test_an_address_with_a_password_or_without_a_scheme_is_refused(bad):
    with pytest.raises(ValueError, match="without a password"):
        Policy.model_validate({"telemetry": {"otlp": bad}})
