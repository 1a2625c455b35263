"""A real model end to end: the chat agent on archives/digits, with any OpenAI-compatible server you already run.

    pip install 'llama-cpp-python[server]'
    python -m llama_cpp.server --model qwen2.5-coder-1.5b.gguf --host 127.0.0.1 --port 8123 --n_ctx 8192
    python benchmarks/real_model.py http://127.0.0.1:8123/v1 [--model NAME] [--steps 20] [--seed 0] [--runs FOLDER]

Told: every proposal, then a table: how they were written, replies sent back, parse failures, verdicts, tokens, and what
the holdout and the vault say. Not part of the tests: it takes as long as the model takes.
"""

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

import anyio

from harness import open_run
from harness.archive.sqlite import SqliteArchive
from harness.events import TicketDecided
from harness.resources import resource
from harness.untrusted import line

# a small model left to itself writes the whole file again, 2,300 tokens of it
SHORT = 'Do not repeat the file: answer with one "Why:" line and one search/replace block of one or two lines.'


async def main(given):
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) if given.runs is None else given.runs
        model = {"base_url": given.url, "model": given.model, "max_output_tokens": 600, "concurrency": 1}
        overrides = {
            "agent.name": "chat",
            # told the lines of earlier tries, a model of 1.5B writes those again
            "agent.config": {"max_tokens": 600, "history": 6, "lines": False, "file_kb": 8, "instructions": SHORT},
            "models.main": {**model, "first_byte_s": 1800.0, "idle_s": 600.0, "total_s": 3600.0},
            "budget.steps": given.steps,
            "stop.agent_failures": given.steps,
        }
        subject = resource("archives") / "digits"
        started = time.monotonic()
        async with open_run(subject, seed=given.seed, workers=1, overrides=overrides, runs=runs) as run:
            async for event in run.events:
                if isinstance(event, TicketDecided):
                    decision, took = event.decision, time.monotonic() - started
                    told = f"{event.score} {line(event.note, 100)}"
                    print(f"{decision.ticket:3} {decision.verdict:10} {told} {took:.0f} s", flush=True)
        archive = await SqliteArchive.view(run.folder)
        proposals, rows = await archive.proposals(), await archive.ledger()
        await archive.aclose()
    tell(run.summary, proposals, [row.body for row in rows if row.kind == "ticket"], time.monotonic() - started)


def tell(summary, proposals, tickets, took):
    written = Counter(str(one.memo["format"]) for one in proposals if "format" in one.memo)
    repaired = sum(bool(one.memo.get("repaired")) for one in proposals)
    counts = Counter(ticket["decision"]["verdict"] for ticket in tickets)
    bad = [f"{one.ticket}: {one.note}" for one in proposals if one.status == "failed"]
    models = summary["models"]["proposer"]
    vault = summary["vault"]
    lines = {
        "proposals": f"{len(proposals)}: {', '.join(f'{number} {how}' for how, number in written.most_common())}",
        "usable after one reply was sent back": repaired,
        "parse failures": f"{len(bad)}",
        "blocked": counts["blocked"],
        "verdicts": ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common()),
        "visible": f"{summary['root']['metric']:.4g} -> {summary['incumbent']['metric']:.4g}",
        "holdout": f"{summary['holdout']['queries']} queries, {summary['holdout']['surprises']} surprises: "
        f"{summary['holdout']['verdict']}",
        "vault": f"{vault['root']['metric']} -> {(vault.get('best') or vault['root'])['metric']}",
        "calls": f"{models['requests']}, {models['tokens_in']} tokens in, {models['tokens_out']} out",
        "took": f"{took / 60:.0f} min",
    }
    print("\n".join(f"| {name} | {told} |" for name, told in lines.items()))
    print("\n".join(bad))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--model", default="")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=Path, help="where to keep the run (default: nowhere)")
    anyio.run(main, parser.parse_args())
