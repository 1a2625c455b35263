"""`strop report`: the run as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.arguments import DEFAULT_RUNS, RunName, RunsFolder, locate


def report(
    name: RunName = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where to write it.", show_default="report.html in the run folder"),
    ] = None,
    runs: RunsFolder = DEFAULT_RUNS,
) -> None:
    """Write one self-contained HTML page: metric over steps, variants, every decision with its diff, budget, vault.

    It needs no network and no other file. It works for a run that is still going.

    Example: strop report last --out morning.html
    """
    import anyio

    from harness.report.html import write_report

    folder = locate(name, runs)
    typer.echo(anyio.run(write_report, folder, out))
