"""`strop verify`: is a run still what it was when it was written?"""

from __future__ import annotations

import typer

from harness.cli.arguments import DEFAULT_RUNS, AsJson, RunName, RunsFolder, locate
from harness.errors import IntegrityError


def verify(name: RunName = None, runs: RunsFolder = DEFAULT_RUNS, as_json: AsJson = False) -> None:
    """Recompute a run's hash chains, its trees and its locks. Exit 4 names the first record that differs.

    It may be asked of a run that is still going, and of a read-only copy.

    Example: strop verify last && strop export --patch best.patch
    """
    import anyio

    from harness.cli.output import print_json
    from harness.research.verify import verify as check

    folder = locate(name, runs)
    try:
        found = anyio.run(check, folder)
    except IntegrityError as error:
        if not as_json:
            raise
        print_json({"ok": False, "record": error.record, "expected": error.expected, "found": error.found})
        raise typer.Exit(error.exit_code) from error
    if as_json:
        print_json({"ok": True, **found.as_json()})
        return
    typer.echo(
        f"{folder.name} is what it was when it was written: {found.entries} ledger entries, {found.tickets} tickets, "
        f"{found.rollouts} rollouts, {found.trees} trees of {found.objects} objects"
    )
    if found.mounts or found.mounts_elsewhere:
        elsewhere = f", {found.mounts_elsewhere} not on this machine" if found.mounts_elsewhere else ""
        typer.echo(f"{found.mounts} mounted folders hold what they held{elsewhere}")
    typer.echo(f"head {found.hash}\nseal {found.seal}")
    if found.anchor_lag:
        typer.echo(f"the anchor lags by {found.anchor_lag} entries, as after a crash or beside a live run")
