"""A real model end to end: the chat agent on archives/digits, with any OpenAI-compatible server you already run.

    pip install 'llama-cpp-python[server]'
    python -m llama_cpp.server --model qwen2.5-coder-1.5b.gguf --host 127.0.0.1 --port 8123 --n_ctx 8192
    python benchmarks/real_model.py http://127.0.0.1:8123/v1 [--model NAME] [--steps 20] [--seed 0]

Told: proposals by how they were written, replies sent back, parse failures, verdicts, tokens, and what the holdout and
the vault say. Not part of the tests: it takes as long as the model takes.
"""

import argparse
import tempfile
from collections import Counter
from pathlib import Path

import anyio

from harness import open_run
from harness.archive.sqlite import SqliteArchive
from harness.resources import resource


async def main(given):
    with tempfile.TemporaryDirectory() as folder:
        model = {"base_url": given.url, "model": given.model, "max_output_tokens": 3000, "concurrency": 1}
        overrides = {
            "agent.name": "chat",
            "agent.config": {"max_tokens": 3000, "history": 8, "file_kb": 12},
            "models.main": {**model, "first_byte_s": 900.0, "idle_s": 300.0, "total_s": 1800.0},
            "budget.steps": given.steps,
        }
        opening = open_run(
            resource("archives") / "digits", seed=given.seed, workers=1, overrides=overrides, runs=Path(folder)
        )
        async with opening as run:
            async for event in run.events:
                print(type(event).__name__, getattr(event, "decision", ""), getattr(event, "note", ""), flush=True)
        archive = await SqliteArchive.view(run.folder)
        proposals = await archive.proposals()
        await archive.aclose()
    written = Counter(str(one.memo.get("format", "none usable")) for one in proposals)
    repaired = sum(int(one.memo.get("repaired", 0)) for one in proposals)
    summary = run.summary
    print(f"proposals  {len(proposals)}: {dict(written)}, {repaired} after one reply was sent back")
    print(f"verdicts   {summary['counts']}")
    print(f"metric     {summary['root']['metric']} -> {summary['incumbent']['metric']} (visible)")
    print(f"holdout    {summary['holdout']}")
    print(f"vault      {summary['vault']}")
    print(f"models     {summary['models']}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--model", default="")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    anyio.run(main, parser.parse_args())
