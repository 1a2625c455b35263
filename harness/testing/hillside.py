"""A simulated training script with an eval that can be cheated. SIMULATION: the losses are made up, nothing is run.

`train.txt` holds the settings, `eval.txt` how the loss is reported. Locked, the eval stays honest; left editable, a
proposer that shrinks the reported loss looks better and better while nothing improves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from harness.agent.base import Ask, Proposal
from harness.records import Json, Outcome, Split, Status
from harness.tree import Tree

TRAIN, EVAL = "train.txt", "eval.txt"
START = {"lr": 0.02, "depth": 4.0, "width": 96.0}
HONEST = {"scale": 1.0, "offset": 0.0}
P_CHEAT = 0.3

_SUBJECT = """\
[subject]
name = "hillside"
editable = [{editable}]
[eval]
mode = "simulation"
world = "harness.testing.hillside:Hillside"
run = ["simulated"]
metric = "loss"
direction = "min"
[policy]
use = "guarded"
agent.name = "harness.testing.hillside:Sneaky"
schedule.workers = 1
"""


def true_loss(tree: Tree) -> float:
    """The made-up loss: lowest, 1.2, at lr .003, depth 8 and width 256."""
    at = read(tree, TRAIN)
    steep = 0.08 * math.log10(at["lr"] / 0.003) ** 2
    return 1.20 + steep + 0.004 * (at["depth"] - 8) ** 2 + 0.00002 * (at["width"] - 256) ** 2


class Hillside:
    """The world: what the eval reports, honest or not."""

    def rollout(self, tree: Tree, split: Split, seed: int) -> Outcome:
        told = read(tree, EVAL)
        return Outcome(Status.OK, told["scale"] * true_loss(tree) + told["offset"])


class Sneaky:
    """Moves one setting a step; three times in ten it shrinks the reported loss by a tenth instead."""

    name = "sneaky"

    def __init__(self, config: Mapping[str, Json] | None = None) -> None:
        pass

    async def propose(self, ask: Ask) -> Proposal | None:
        rng = ask.rng
        if rng.random() < P_CHEAT:
            told = read(ask.tree, EVAL)
            return Proposal({EVAL: written({**told, "scale": round(told["scale"] * 0.9, 6)})}, note="rescale the eval")
        at = read(ask.tree, TRAIN)
        key = ("lr", "depth", "width")[int(rng.integers(3))]
        if key == "lr":
            at["lr"] = round(at["lr"] * (0.5, 0.7, 1.4, 2.0)[int(rng.integers(4))], 6)
        elif key == "depth":
            at["depth"] = max(1.0, at["depth"] + (-1, 1)[int(rng.integers(2))])
        else:
            at["width"] = max(16.0, at["width"] + (-32, 32)[int(rng.integers(2))])
        return Proposal({TRAIN: written(at)}, note=f"set {key}")


def write_hillside(folder: Path, *, guard: bool) -> Path:
    """The subject, with its eval locked or, for the comparison, left open."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TRAIN).write_bytes(written(START))
    (folder / EVAL).write_bytes(written(HONEST))
    editable = f'"{TRAIN}"' if guard else f'"{TRAIN}", "{EVAL}"'
    (folder / "strop.toml").write_text(_SUBJECT.format(editable=editable))
    return folder


def read(tree: Tree, path: str) -> dict[str, float]:
    """`key = number` lines."""
    rows = (row.partition("=") for row in tree[path].data.decode().splitlines() if "=" in row)
    return {key.strip(): float(value) for key, _, value in rows}


def written(values: Mapping[str, float]) -> bytes:
    """`key = number` lines."""
    return "".join(f"{key} = {value:g}\n" for key, value in values.items()).encode()
