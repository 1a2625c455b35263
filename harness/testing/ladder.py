"""A simulated set of tasks of rising difficulty. SIMULATION: nothing is run, what is solved is made up.

A variant is a number, its skill, in `skill.txt`; it solves a task when its skill is above the task's difficulty, give
or take `noise`. A skill below zero breaks it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from harness.agent.base import Ask, Proposal
from harness.records import Json, Outcome, Split, Status
from harness.streams import stream
from harness.tree import Tree

FILE = "skill.txt"
COUNT = 20

SUBJECT = """\
[subject]
name = "ladder"
editable = ["skill.txt"]
[eval]
mode = "simulation"
world = "harness.testing.ladder:Ladder"
run = ["simulated"]
metric = "solved"
direction = "max"
range = [0.0, 1.0]
[policy]
use = "guarded"
agent.name = "harness.testing.ladder:Trainer"
archive.mode = "keep_all"
[[policy.stages.plan]]
tasks = 4
threshold = 0.25
[[policy.stages.plan]]
tasks = 8
threshold = 0.4
[[policy.stages.plan]]
"""


def skill(tree: Tree) -> tuple[float, float]:
    """(skill, noise) of a variant."""
    words = tree[FILE].data.decode().split()
    return float(words[0]), float(words[1]) if len(words) > 1 else 0.0


class Ladder:
    """The world, with as many tasks on each split."""

    def tasks(self, split: Split) -> list[str]:
        return [f"{split}-{n:02d}" for n in range(COUNT)] if split is Split.VISIBLE else []

    def task(self, tree: Tree, split: Split, name: str, seed: int) -> Outcome:
        level, noise = skill(tree)
        if level < 0:
            return Outcome(Status.AGENT_ERROR, detail="simulated: broken")
        luck = noise * stream(seed, "luck", name).standard_normal()
        solved = float(level + luck > int(name[-2:]) / COUNT)
        return Outcome(Status.OK, solved, {name: solved})

    def rollout(self, tree: Tree, split: Split, seed: int) -> Outcome:
        runs = {name: self.task(tree, split, name, seed) for name in self.tasks(split)}
        scores = {name: run.score for name, run in runs.items() if run.score is not None}
        if not scores:
            return Outcome(Status.AGENT_ERROR, detail="simulated: broken")
        return Outcome(Status.OK, math.fsum(scores.values()) / len(scores), scores)


class Trainer:
    """Moves the skill a little, up or down; its file names the ticket, so that every child is new."""

    name = "trainer"

    def __init__(self, config: Mapping[str, Json] | None = None) -> None:
        pass

    async def propose(self, ask: Ask) -> Proposal | None:
        level, noise = skill(ask.tree)
        moved = round(level + 0.15 * float(ask.rng.standard_normal()), 4)
        task = f"visible-{min(COUNT - 1, max(0, int(level * COUNT))):02d}"
        memo: dict[str, Json] = {"hypothesis": {"claim": f"skill {moved} solves {task}", "solves": [task]}}
        return Proposal({FILE: f"{moved} {noise} {ask.ticket}\n".encode()}, note=f"skill {moved}", memo=memo)


def write_ladder(folder: Path, *, start: float = 0.3, noise: float = 0.0, policy: str = "") -> Path:
    """The subject; `policy` is more TOML below the last stage's table."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(f"{start} {noise}\n")
    (folder / "strop.toml").write_text(SUBJECT + policy)
    return folder
