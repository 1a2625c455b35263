"""`strop replay`: take every decision of a run again, offline."""

from __future__ import annotations

import typer

from harness.cli.arguments import DEFAULT_RUNS, AsJson, RunName, RunsFolder, locate
from harness.errors import IntegrityError


def replay(name: RunName = None, runs: RunsFolder = DEFAULT_RUNS, as_json: AsJson = False) -> None:
    """Take a run's decisions again from its recorded rollouts and model replies. Exit 4 names the first that differs.

    No box is opened and no model is asked; a run that stopped early is replayed as far as it went.

    Example: strop replay last
    """
    import anyio

    from harness.cli.output import print_json
    from harness.research.replay import replay as take_again

    folder = locate(name, runs)
    try:
        found = anyio.run(take_again, folder)
    except IntegrityError as error:
        if not as_json:
            raise
        print_json({"ok": False, "record": error.record, "expected": error.expected, "found": error.found})
        raise typer.Exit(error.exit_code) from error
    if as_json:
        print_json({"ok": True, **found.as_json()})
        return
    proposals = f"{found.proposals} proposals made again" if found.proposals else "proposals as recorded"
    vault = ", the vault's numbers too" if found.vault else ""
    typer.echo(
        f"{folder.name}: {found.tickets} decisions taken again, all the same{vault}; {proposals}, "
        f"{found.replies} model replies from the journal"
    )
