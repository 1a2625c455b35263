"""Gateways over scripted models, for the tests beside this file."""

from contextlib import asynccontextmanager

import httpx2

from harness.model.base import Caller, MemoryJournal
from harness.model.gateway import open_gateway
from harness.model.server import serve
from harness.policy.schema import BudgetPolicy, ModelPolicy

KEY = "sk-test-0123456789abcdefghij0123456789"
CHAT = {"model": "m", "messages": [{"role": "user", "content": "say hello to me"}]}


def policy(model, /, **changes):
    settings = {"base_url": model.url, "connect_s": 5, "first_byte_s": 10, "idle_s": 10, "total_s": 30}
    return ModelPolicy.model_validate({**settings, "patience_s": 20, **changes})


@asynccontextmanager
async def opened(model, /, *, budget=None, journal=None, environment=None, recorded_only=False, **changes):
    """A served gateway with one model called m."""
    models = {"m": policy(model, **changes)}
    journal = journal or MemoryJournal()
    limits = BudgetPolicy.model_validate(budget or {})
    async with (
        open_gateway(models, limits, journal, environment=environment, recorded_only=recorded_only) as gateway,
        serve(gateway) as server,
    ):
        for one in gateway.routes.values():
            one.breaker._first_s = 0.05
        yield server


@asynccontextmanager
async def client_of(server, caller=None):
    key = server.key(caller or Caller(1))
    async with httpx2.AsyncClient(
        base_url=server.url, headers={"authorization": f"Bearer {key}"}, timeout=60, trust_env=False
    ) as client:
        yield client


@asynccontextmanager
async def reached(model, /, *, caller=None, **settings):
    """(a served gateway, a client of it with a virtual key)."""
    async with opened(model, **settings) as server, client_of(server, caller) as client:
        yield server, client
