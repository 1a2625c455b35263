"""How many of 64 slots an optimizer keeps busy when rollouts take very different times: python benchmarks/busy.py.

Durations are log-normal (sigma 1, mean 0.25 s, at most 2.5 s); the share is slot seconds used of those there were, from
the first rollout to the last. Simulated programs, real waiting.
"""

import math
import time
from dataclasses import dataclass, field

import anyio

from harness.errors import BudgetError
from harness.optimizer.drive import optimize
from harness.optimizer.registry import make_optimizer
from harness.optimizer.together import together
from harness.streams import stream
from harness.testing.prompt_host import SimulatedHost
from harness.testing.prompt_world import questions

SLOTS, MEAN_S, MOST_S = 64, 0.25, 2.5


@dataclass
class Waiting(SimulatedHost):
    """A host whose rollouts take their time, `SLOTS` at once."""

    limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(SLOTS))
    spans: list = field(default_factory=list)

    async def evaluate(self, texts, examples, tag="", within=None):
        found = await super().evaluate(texts, examples, tag)

        async def one(example):
            drawn = stream(self.seed, "duration", example.id, tag, str(sorted(texts.items()))).lognormal(-0.5, 1.0)
            async with self.limiter:
                started = time.monotonic()
                await anyio.sleep(min(MOST_S, MEAN_S * float(drawn)))
                self.spans.append((started, time.monotonic()))

        await together([lambda example=example: one(example) for example in examples])
        return found


async def measure(name, config, rollouts):
    host = Waiting(train=questions(60, 1), val=questions(18, 2, "val"), rollouts=rollouts)
    try:
        await optimize(make_optimizer(name), host, config)
    except BudgetError as error:
        print(error)
    first, last = min(start for start, _ in host.spans), max(end for _, end in host.spans)
    used = math.fsum(end - start for start, end in host.spans)
    share = used / (SLOTS * (last - first))
    print(
        f"| {name} {config} | {len(host.spans)} | {used:.0f} s | {last - first:.1f} s | {100 * share:.0f} % |",
        flush=True,
    )


async def main():
    print("| optimizer | rollouts | work | wall | busy |\n|---|---|---|---|---|")
    await measure("gepa", {"parallel": 1, "iterations": 20}, 400)
    await measure("gepa", {"parallel": 192, "per_step": 1024, "iterations": 1024}, 26000)


anyio.run(main)
