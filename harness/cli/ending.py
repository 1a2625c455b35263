"""What a run ends with: the numbers that can be believed, what they cost, and where everything is."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from harness.cli.output import console, print_json
from harness.errors import StropError
from harness.report.claims import (
    baseline_claim,
    cost_claim,
    holdout_claim,
    isolation_claim,
    mode_claim,
    models_claim,
    optimizer_claim,
    raised_claim,
    role_claims,
    rootless,
    vault_claim,
    waiting_claim,
    working_tree_claim,
)
from harness.report.numbers import as_float, change, interval, number, part
from harness.untrusted import line

if TYPE_CHECKING:
    from harness.records import Json

NEXT = {
    "finished": "strop export {run} --to better/",
    "interrupted": "strop resume {run}",
    "created": "strop resume {run}",
}
NOTHING_KEPT = "strop log {run}  # nothing was kept: it says why each try was turned down"
ROOTLESS = "make the subject run and score as it is, then start a new run: this one cannot be resumed to any use"


async def ending(folder: Path, as_json: bool, silent: bool) -> None:
    """Write the report and the winning diff of the run in `folder`, then print its summary unless `silent`."""
    from harness.report.html import write_report
    from harness.research.summary import summarize

    summary = await summarize(folder)
    unwritten: StropError | None = None
    if part(summary, "root"):
        try:
            await write_report(folder, None)
        except StropError as error:
            unwritten = error
    if as_json:
        print_json(summary)
    elif not silent:
        print_summary(summary)
    if unwritten is not None:  # the run and its vault are whole; only their picture is missing
        typer.echo(f"strop: no report: {line(unwritten.message)}; `strop report` writes it later", err=True)


def print_summary(summary: Mapping[str, Json]) -> None:
    """The summary for people, one fact a line."""
    out = console()
    for label, text in rows(summary):
        out.print(f"{label:<9} {text}", soft_wrap=True, style="bold" if label in {"best", "vault"} else None)


def rows(summary: Mapping[str, Json]) -> list[tuple[str, str]]:
    """(label, text) of every line of the summary."""
    root, best, steps = part(summary, "root"), part(summary, "incumbent"), part(summary, "steps")
    gain = change(as_float(best.get("metric")), as_float(root.get("metric")))
    why = line(str(summary.get("reason") or "")).removeprefix(f"{summary['state']}: ")
    reason = f" ({why})" if why else ""
    run = run_name(summary)
    found = [
        ("run", f"{summary['run_id']}: {summary['state']}{reason}, {steps.get('done')} of {steps.get('limit')} steps"),
        ("subject", f"{line(str(summary['subject']))}: {summary['metric']} ({summary['direction']})"),
        ("root", "the root has no score" if rootless(summary) else _visible(root)),
        ("best", f"{_visible(best)}  {gain}".rstrip()),
        (
            "verdicts",
            ", ".join(f"{count} {name}" for name, count in part(summary, "counts").items() if count) or "none",
        ),
        ("holdout", holdout_claim(summary)),
        ("vault", vault_claim(summary)),
        ("cost", cost_claim(summary)),
        ("eval", mode_claim(summary)),
        ("box", isolation_claim(summary)),
        ("ledger", f"head {summary.get('ledger_head')}"),
        ("report", str(summary["report"]) if Path(str(summary["report"])).is_file() else f"strop report {run}"),
        ("diff", f"strop diff {run}"),
    ]
    if grew := raised_claim(summary):
        found.insert(next(at for at, row in enumerate(found) if row[0] == "cost") + 1, ("raised", grew))
    if models := models_claim(summary):
        found.insert(next(at for at, row in enumerate(found) if row[0] == "cost") + 1, ("models", models))
    if came := optimizer_claim(summary):
        at = next(at for at, row in enumerate(found) if row[0] == "eval")
        found[at:at] = [("optimizer", came), *role_claims(part(summary, "roles"))]
    if baseline := baseline_claim(summary):
        found.insert(next(at for at, row in enumerate(found) if row[0] == "cost"), ("baseline", baseline))
    for name, wait in part(summary, "waiting").items():
        found.insert(1, ("waiting", waiting_claim(name, cast("Mapping[str, Json]", wait))))
    if ahead := working_tree_claim(part(summary, "uncommitted")):
        found.insert(2, ("tree", ahead))
    advice = _advice(summary)
    return [*found, ("next", advice.format(run=run))] if advice else found


def _advice(summary: Mapping[str, Json]) -> str | None:
    if rootless(summary):
        return ROOTLESS
    if summary["state"] == "finished" and part(summary, "incumbent").get("id") == part(summary, "root").get("id"):
        return NOTHING_KEPT
    return NEXT.get(str(summary["state"]))


def run_name(summary: Mapping[str, Json]) -> str:
    """What to call the run in the next command: its id where that finds it, else its folder, quoted for a shell."""
    from harness.research.runs import runs_folder

    folder = Path(str(summary["folder"]))
    found = runs_folder().resolve() == folder.parent.resolve()
    return shlex.quote(str(summary["run_id"]) if found else str(folder))


def _visible(side: Mapping[str, Json]) -> str:
    if not side:
        return "not measured yet"
    between = interval(side.get("interval"))
    return f"{side['id']} {number(side.get('metric'))}{f' {between}' if between else ''} on visible"
