"""Is the agent of a policy there? Asked before a run writes or spends anything: a night without it is a night lost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from harness.agent.base import Agent
from harness.agent.bench import Bench, Proves
from harness.box.base import Boxes, BoxSpec, Mount
from harness.evaluation.simulation import NoBoxes
from harness.policy.schema import Policy
from harness.records import Json
from harness.research.optimize.opening import make_proposer

_OWNER = "prove"


async def prove(policy: Policy, boxes: Boxes, folders: Mapping[str, Path]) -> bool:
    """Whether the policy's agent is one that can be tried, once it was. `folders` are the policy's own mounts.

    Raises InputError that says what its box lacks, InfraError.
    """
    agent: Agent = make_proposer(policy.agent.name, cast("Mapping[str, Json]", policy.agent.config))
    if isinstance(boxes, NoBoxes) or not isinstance(agent, Proves):
        return False
    mounts = tuple(Mount(folder, at) for at, folder in folders.items())
    await agent.prove(Bench(boxes, BoxSpec(_OWNER, policy.box.limits, mounts)))
    return True
