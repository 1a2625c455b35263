"""Upper-confidence-bound evaluation: spend few rollouts on many candidates, more on those that look good.

After `UCB Bandits` in ProTeGi (Pryzant et al., arXiv 2305.03495): index = mean + c sqrt(ln t / pulls).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from harness.optimizer.base import Example, Host
from harness.optimizer.pool import Pool
from harness.optimizer.slots import sample
from harness.optimizer.together import together


def ucb_index(mean: float, pulls: int, total: int, c: float) -> float:
    """The optimistic estimate; infinite for what was never pulled. `total` is the pulls of all arms together."""
    if pulls == 0:
        return math.inf
    return mean + c * math.sqrt(math.log(max(total, 1)) / pulls)


async def ucb_rounds(
    host: Host,
    pool: Pool,
    arms: Sequence[int],
    examples: Sequence[Example],
    *,
    rounds: int,
    per_round: int,
    samples: int,
    c: float,
    name: str,
    step: int,
) -> list[int]:
    """Evaluate `arms` by UCB and record into `pool`; the arms from best mean to worst."""
    for turn in range(rounds):
        total = sum(pool.count(arm) for arm in arms)
        order = sorted(arms, key=lambda arm: (-ucb_index(_mean(pool, arm), pool.count(arm), total, c), arm))
        batch = sample(host.rng(f"{name}/ucb", step, turn), examples, samples)
        chosen = order[:per_round]
        pull = partial(host.evaluate, examples=batch, tag=f"{name}/{step}/{turn}")
        found = await together([partial(pull, pool.texts(arm)) for arm in chosen])
        for arm, results in zip(chosen, found, strict=True):
            pool.record(arm, results)
    return pool.order(arms)


def _mean(pool: Pool, arm: int) -> float:
    failed, mean = pool.key(arm)
    return mean if failed == 0 else -math.inf
