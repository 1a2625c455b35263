"""One call to a model of a policy, through the same gateway that runs use: does it answer, and what does that take?"""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from harness.cli.probes import Check
from harness.errors import InputError, ModelError, StropError
from harness.model.base import Caller, MemoryJournal
from harness.model.gateway import ask, open_gateway
from harness.model.hush import quietly
from harness.model.preflight import key_mend, preflight, start_mend
from harness.model.pricing import NANO, listed
from harness.model.route import key_of
from harness.model.silence import spoken, thought, why_silent
from harness.policy.load import load_subject
from harness.policy.schema import ModelPolicy
from harness.records import Json
from harness.research.models import check_needed
from harness.untrusted import line

PATIENCE_S = 5.0
QUESTION = "Answer with the one word: ready"


def needed_model(subject: Path) -> list[Check]:
    """Whether a subject that asks a model has one; nothing for one that asks none. Raises InputError."""
    loaded = load_subject(subject)
    try:
        check_needed(loaded.file.subject, loaded.policy)
    except InputError as error:
        return [Check("models", False, error.problem, error.mend)]
    if not loaded.file.subject.needs_model:
        return []
    named = ", ".join(loaded.policy.models)
    return [Check("models", True, f"named: {named}; --model NAME asks one")]


async def probe_model(name: str, subject: Path) -> Check:
    """Ask model `name` of the subject's policy one question. Raises InputError when the policy has no such model."""
    policy = load_subject(subject).policy
    if name not in policy.models:
        known = ", ".join(policy.models) or "none"
        mend = f"the policy has: {known}; write [policy.models.{name}] base_url = ..."
        raise InputError(f"no model called {name!r}", file=subject, key="policy.models", mend=mend)
    model = policy.models[name].model_copy(update={"patience_s": PATIENCE_S, "max_output_tokens": 256})
    where = f"models.{name} ({model.base_url})"
    started = time.monotonic()
    try:
        await preflight({name: model})
    except ModelError as error:
        return Check(where, False, line(error.message, 300), error.mend)
    try:
        async with open_gateway({name: model}, policy.budget, MemoryJournal()) as gateway:
            body: dict[str, Json] = {"model": name, "messages": [{"role": "user", "content": QUESTION}]}
            reply = await ask(gateway, Caller(0, "doctor"), "/v1/chat/completions", body)
            used = gateway.allowance.used
    except ModelError as error:
        return Check(where, False, line(error.message, 300), await _mend(name, model, error.reason))
    except StropError as error:
        return Check(where, False, line(error.message, 300), error.mend)
    if reply.status != 200:
        told = f"HTTP {reply.status}"
        return Check(where, False, f"{told}: {line(reply.body, 200)}", await _mend(name, model, told))
    choice = json.loads(reply.body)["choices"][0]
    text, marked = spoken(choice), " (estimated)" if used.estimated else ""
    said = f"said {line(text, 40)!r}" if text.strip() else f"said nothing: {why_silent(choice)}"
    told = f"{said} in {time.monotonic() - started:.1f} s; "
    priced = model.price is not None or listed(model.model or name) is not None
    money = f"{used.nano_usd / NANO:.6f} USD" if priced else "USD unknown (no price is known for it)"
    told += f"{used.tokens_in} tokens in, {used.tokens_out} out{marked}, {money}"
    if not text.strip() and not thought(choice):
        return Check(where, False, told, f"ask it by hand, and check model of models.{name}: is it one that chats?")
    return Check(where, True, told)


async def _mend(name: str, model: ModelPolicy, reason: str) -> str:
    """What to do about `reason`, from what can be found out without spending anything."""
    known = "" if reason.startswith("cannot connect") else await _served(name, model)
    if reason.startswith(("HTTP 401", "HTTP 403")):
        return key_mend(name, model)
    if known:
        return f"base_url answers; set model of models.{name} to one it has: {known}"
    if reason.startswith("HTTP 404"):
        return f"check base_url of models.{name} (OpenAI-compatible servers mostly end in /v1) and model"
    if reason.startswith("cannot connect"):
        return start_mend(name, model, reason)
    return f"check base_url, model and api_key_env of models.{name}, and the server's own log"


async def _served(name: str, model: ModelPolicy) -> str:
    """The models that the server lists, when the one asked for is not among them."""
    key = key_of(name, model)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    local = urlsplit(model.base_url).hostname in {"127.0.0.1", "localhost", "::1"}
    try:
        with quietly():
            async with httpx2.AsyncClient(timeout=5.0, trust_env=not local) as client:
                found = (await client.get(f"{model.base_url.rstrip('/')}/models", headers=headers)).json()
        ids = [str(row["id"]) for row in found["data"]]
    except (httpx2.HTTPError, ValueError, KeyError, TypeError):
        return ""
    return "" if (model.model or name) in ids else ", ".join(line(one, 60) for one in ids[:8])
