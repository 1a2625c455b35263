"""Arguments and options that several commands share."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from harness.errors import InputError

DEFAULT_RUNS = Path(".strop/runs")
_VARIANT = re.compile(r"[vt]\d+|root|best", re.ASCII)


def complete_run(incomplete: str) -> list[str]:
    folder = Path(os.environ.get("STROP_RUNS") or DEFAULT_RUNS)
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []
    return [name for name in (*names, "last") if name.startswith(incomplete)]


RunName = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN]",
        help="A run id, the unique start of one, a run folder, or `last`.",
        show_default="last",
        autocompletion=complete_run,
    ),
]
RunsFolder = Annotated[Path, typer.Option("--runs", envvar="STROP_RUNS", help="Where runs are kept.", file_okay=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a machine.")]
Plain = Annotated[bool, typer.Option("--plain", help="One line a decision, also on a terminal.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the final summary.")]


def locate(name: str | None, runs: Path) -> Path:
    """The folder of the run that `name` means. Raises InputError when there is none or several."""
    from harness.research.runs import find_run

    sweep_boxes()
    return find_run(name, runs)


def sweep_boxes() -> None:
    """Remove what the boxes of killed processes left, containers of a local engine too; a command that names a run
    begins with it. Never fails."""
    from harness.box.containers import sweep_containers
    from harness.box.reaper import sweep

    with suppress(OSError):
        sweep()
    sweep_containers()


def split_run(names: list[str], most: int) -> tuple[str | None, list[str]]:
    """Tell `RUN A B` from `A B`: a first word that looks like a variant leaves the run at the last one.

    `most` is how many variants may follow. Raises InputError when there are more.
    """
    run = names[0] if names and not _VARIANT.fullmatch(names[0]) else None
    rest = names[1:] if run is not None else names
    if len(rest) > most:
        raise InputError(f"too many arguments: {' '.join(rest)}", mend=f"give a run and at most {most} of its variants")
    return run, rest
