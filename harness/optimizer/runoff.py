"""How a host picks among nominees when scores are noisy: successive halving on fresh measurements.

Scores that led the search are partly luck (the best of many draws); the run-off asks anew. It spends exactly the
rollouts it is given, never more; every round the better half goes on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from harness.optimizer.base import Host, Texts
from harness.optimizer.pool import Pool
from harness.optimizer.slots import sample
from harness.optimizer.together import together


async def runoff(host: Host, nominees: Sequence[Texts], rollouts: int, *, most: int = 8) -> Texts:
    """The winner of the first `most` nominees. With too few rollouts for one round, the first nominee."""
    pool = Pool(floor=host.floor)
    alive = [pool.add(texts) for texts in nominees[:most]]
    examples = list(host.examples("val"))
    rounds = max(1, math.ceil(math.log2(max(2, len(alive)))))
    left, turn = rollouts, 0
    while len(alive) > 1:
        each = left // max(1, rounds - turn) // len(alive)
        if each < 1:
            break
        batch = [
            one
            for lap in range(math.ceil(each / len(examples)))
            for one in sample(host.rng("runoff", turn, lap), examples, each - lap * len(examples))
        ]
        laps = [batch[k : k + len(examples)] for k in range(0, len(batch), len(examples))]
        for lap, part in enumerate(laps):
            found = await together([partial(host.evaluate, pool.texts(k), part, f"runoff/{turn}/{lap}") for k in alive])
            for number, results in zip(alive, found, strict=True):
                pool.record(number, results)
        left -= each * len(alive)
        alive = pool.order(alive)[: math.ceil(len(alive) / 2)]
        turn += 1
    return pool.texts(alive[0])
