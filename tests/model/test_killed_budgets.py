"""Hard budgets over kill -9: the upstream's own books never pass a limit, however often the process dies in between.

`STROP_BUDGET_RUNS=1000 pytest tests/model/test_killed_budgets.py` draws so many; CI draws a few.
"""

import json
import os
import subprocess
import sys
from contextlib import contextmanager

import anyio
import numpy as np

from harness.archive.sqlite import SqliteArchive
from harness.testing.scripted_model import ScriptedModel

RUNS = int(os.environ.get("STROP_BUDGET_RUNS", "12"))
KINDS = ("requests", "tokens_in", "tokens_out", "usd")
PLACES = ("call-stored", "call-begun", "call-answered")
PRICE = {"input": 2.0, "output": 10.0}
"""A session is a fork of one process that has imported everything, so that a thousand runs fit into minutes."""
SESSIONS = """
import json, os, signal, sys, time
from pathlib import Path
import anyio
import harness.failpoint
from harness.archive.sqlite import SqliteArchive
from harness.errors import BudgetError
from harness.model.base import Caller
from harness.model.gateway import ask, open_gateway
from harness.policy.schema import BudgetPolicy, ModelPolicy

async def session(folder, url, budget, price):
    folder = Path(folder)
    archive = await SqliteArchive.open(folder)
    models = {"m": ModelPolicy(base_url=url, max_output_tokens=8, price=price)}
    async with open_gateway(models, BudgetPolicy(**budget), archive.journal()) as gateway:
        async def one(number):
            said = [{"role": "user", "content": f"number {number} " + "word " * (number % 7)}]
            try:
                await ask(gateway, Caller(1), "/v1/chat/completions", {"model": "m", "messages": said})
            except BudgetError:
                pass
        async with anyio.create_task_group() as group:
            for number in range(64):
                group.start_soon(one, number)
        usage = {kind: line.used for kind, line in gateway.usage().items()}
    await archive.aclose()
    (folder / "usage.json").write_text(json.dumps(usage))

for row in sys.stdin:
    told = json.loads(row)
    child = os.fork()
    if child == 0:
        harness.failpoint._armed, harness.failpoint._nth = told["armed"]
        anyio.run(session, *told["session"])
        os._exit(0)
    if told["after_s"] is not None:
        time.sleep(told["after_s"])
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


@contextmanager
def sessions():
    """A function that runs one session to its end, its own or a kill's, and gives its exit code."""
    with subprocess.Popen([sys.executable, "-c", SESSIONS], stdin=-1, stdout=-1, text=True) as process:

        def run(session, armed=("", "1"), after_s=None):
            process.stdin.write(json.dumps({"session": session, "armed": armed, "after_s": after_s}) + "\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        yield run
        process.stdin.close()


def drawn(rng):
    """A budget of one to four random limits."""
    most = {"requests": 80, "tokens_in": 2500, "tokens_out": 400, "usd": 0.006}
    kinds = rng.permutation(KINDS)[: int(rng.integers(1, 5))]
    return {str(kind): float(rng.uniform(0.02, 1) * most[kind]) for kind in kinds}


def whole(budget):
    return {kind: amount if kind == "usd" else max(1, int(amount)) for kind, amount in budget.items()}


def billed(served):
    dollars = (served.tokens_in * PRICE["input"] + served.tokens_out * PRICE["output"]) / 1e6
    return {
        "requests": served.requests,
        "tokens_in": served.tokens_in,
        "tokens_out": served.tokens_out,
        "usd": dollars,
    }


def over(books, budget):
    return {
        kind: (books.get(kind, 0), limit) for kind, limit in budget.items() if books.get(kind, 0) > limit * (1 + 1e-9)
    }


async def test_64_callers_and_kills_in_between_never_pass_a_budget(tmp_path):
    rng = np.random.default_rng(2026)
    died = 0
    with sessions() as run:
        for number in range(RUNS):
            budget, folder = whole(drawn(rng)), tmp_path / str(number)
            await (await SqliteArchive.create(folder)).aclose()
            async with ScriptedModel("one two three", keep=False) as model:
                session = [str(folder), model.url, budget, PRICE]
                for _ in range(int(rng.integers(1, 4))):
                    armed = (str(rng.choice(PLACES)), str(rng.integers(1, 12)))
                    after_s = float(rng.uniform(0, 0.12))
                    how = {"armed": armed} if rng.random() < 0.5 else {"after_s": after_s}
                    died += await anyio.to_thread.run_sync(lambda: run(session, **how)) != 0  # noqa: B023 - awaited here
                    assert not over(billed(model.served), budget), (number, budget)
                assert await anyio.to_thread.run_sync(run, session) == 0
                books, usage = billed(model.served), json.loads((folder / "usage.json").read_text())
            assert not over(books, budget), (number, budget)
            assert not over(usage, budget), (number, budget)
            assert all(usage.get(kind, 0) >= books[kind] * (1 - 1e-9) for kind in KINDS), (number, books, usage)
    assert died >= RUNS / 3
    print(f"{RUNS} runs, {died} sessions killed")
