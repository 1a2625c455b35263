"""One call to a model of a policy, through the same gateway that runs use: does it answer, and what does that take?"""

from __future__ import annotations

import json
import time
from pathlib import Path

from harness.cli.probes import Check
from harness.errors import InputError, StropError
from harness.model.base import Caller, MemoryJournal
from harness.model.gateway import ask, open_gateway
from harness.model.pricing import NANO
from harness.policy.load import load_subject
from harness.records import Json
from harness.untrusted import line

PATIENCE_S = 10.0
QUESTION = "Answer with the one word: ready"


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
        async with open_gateway({name: model}, policy.budget, MemoryJournal()) as gateway:
            body: dict[str, Json] = {"model": name, "messages": [{"role": "user", "content": QUESTION}]}
            reply = await ask(gateway, Caller(0, "doctor"), "/v1/chat/completions", body)
            used = gateway.allowance.used
    except StropError as error:
        return Check(where, False, line(error.message, 300), error.mend)
    if reply.status != 200:
        return Check(where, False, f"HTTP {reply.status}: {line(reply.body, 200)}", "check model and base_url")
    said = json.loads(reply.body)["choices"][0]["message"].get("content")
    marked = " (estimated)" if used.estimated else ""
    told = f"said {line(str(said), 40)!r} in {time.monotonic() - started:.1f} s; "
    told += f"{used.tokens_in} tokens in, {used.tokens_out} out{marked}, {used.nano_usd / NANO:.6f} USD"
    return Check(where, True, told)
