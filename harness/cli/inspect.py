"""`strop status` and `strop list`: where runs stand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.arguments import DEFAULT_RUNS, AsJson, RunName, RunsFolder, locate, sweep_boxes

if TYPE_CHECKING:
    from harness.records import Json


def status(name: RunName = None, runs: RunsFolder = DEFAULT_RUNS, as_json: AsJson = False) -> None:
    """Say where a run stands: best so far, verdicts, holdout, budget, ledger head. A live run may be asked too.

    Example: strop status last --json
    """
    import anyio

    from harness.cli.ending import print_summary
    from harness.cli.output import print_json
    from harness.research.summary import summarize

    summary = anyio.run(summarize, locate(name, runs))
    if as_json:
        print_json(summary)
    else:
        print_summary(summary)


def runs_here(runs: RunsFolder = DEFAULT_RUNS, as_json: AsJson = False) -> None:
    """List the runs kept here, oldest first.

    Example: strop list --runs /data/runs
    """
    import anyio

    from harness.cli.output import print_json

    sweep_boxes()
    rows = anyio.run(_rows, runs)
    if as_json:
        print_json(rows)
    else:
        _print_rows(rows, runs)


async def _rows(runs: Path) -> list[dict[str, Json]]:
    from harness.errors import StropError
    from harness.research.runs import list_runs
    from harness.research.summary import summarize

    rows: list[dict[str, Json]] = []
    for folder in list_runs(runs):
        try:
            summary = await summarize(folder)
        except StropError as error:
            rows.append({"run_id": folder.name, "state": "unreadable", "problem": error.message})
            continue
        picked = ("run_id", "state", "reason", "subject", "metric", "seed", "steps", "root", "incumbent", "folder")
        rows.append({key: summary.get(key) for key in picked})
    return rows


def _print_rows(rows: list[dict[str, Json]], runs: Path) -> None:
    from harness.cli.output import console, print_rows
    from harness.report.claims import rootless
    from harness.report.numbers import as_float, change, interval, number, part
    from harness.untrusted import line

    if not rows:
        console(stderr=True).print(f"no runs in {runs}")
        return
    shown: list[list[str]] = []
    for row in rows:
        root, best, steps = part(row, "root"), part(row, "incumbent"), part(row, "steps")
        shown.append(
            [
                str(row["run_id"]),
                "the root has no score" if rootless(row) else str(row["state"]),
                f"{steps.get('done', '')}/{steps.get('limit', '')}" if steps else "",
                f"{number(root.get('metric'))} {interval(root.get('interval'))}".rstrip(),
                f"{number(best.get('metric'))} {interval(best.get('interval'))}".rstrip(),
                change(as_float(best.get("metric")), as_float(root.get("metric"))),
                line(str(row.get("subject") or ""), 80),
            ]
        )
    columns = ("run", "state", "steps", "root", "best", "change", "subject")
    print_rows(columns, shown, right={"root", "best", "change"})
