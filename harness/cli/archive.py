"""`strop archive`: a whole run as one signed file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.arguments import DEFAULT_RUNS, AsJson, RunsFolder, complete_run, locate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.records import Json

app = typer.Typer(no_args_is_help=True, help="Carry a whole run in one signed file.")
File = Annotated[Path, typer.Argument(help="An exported archive.", show_default=False, dir_okay=False)]
ExpectKey = Annotated[
    str | None, typer.Option("--expect-key", help="Refuse a file that this key did not sign.", show_default=False)
]


@app.command("export")
def export(
    name: Annotated[str, typer.Argument(metavar="RUN", help="A run, or `last`.", autocompletion=complete_run)],
    file: Annotated[Path, typer.Argument(help="A file that does not exist yet.", show_default=False)],
    runs: RunsFolder = DEFAULT_RUNS,
    as_json: AsJson = False,
) -> None:
    """Write a run with all its records and trees to one file, signed with your key (made on first use).

    Everything of the run is in it: hidden labels, model replies and the names of the machines it ran on, too.

    Example: strop archive export last coder.strop
    """
    import anyio

    from harness.cli.output import print_json
    from harness.research.transfer import export_archive

    header = anyio.run(export_archive, locate(name, runs), file)
    if as_json:
        print_json(dict(header))
        return
    typer.echo(f"{file}: {_told(header)}\nhead {header['hash']}\nsigned by {header['key']}")


@app.command("import")
def import_(
    file: File,
    name: Annotated[str | None, typer.Option("--name", help="What to call it.", show_default="as it was")] = None,
    expect: ExpectKey = None,
    runs: RunsFolder = DEFAULT_RUNS,
    as_json: AsJson = False,
) -> None:
    """Make a run of an exported archive: checked bit by bit, then looked at, resumed and started from like any other.

    A file that differs from what was signed, or that another key signed, is refused with exit 4.

    Example: strop archive import coder.strop --expect-key ed25519:...
    """
    import anyio

    from harness.archive.signing import checked_key
    from harness.cli.output import print_json
    from harness.research.transfer import import_archive

    wanted = None if expect is None else checked_key(expect)
    found = anyio.run(lambda: import_archive(file, runs, name=name, expect=wanted))
    if as_json:
        print_json({"folder": str(found.folder), "header": dict(found.header), "verified": found.report.as_json()})
        return
    typer.echo(f"{found.folder.name}: {_told(found.header)}\nhead {found.report.hash}")
    typer.echo(f"signed by {_whose(found.key, expected=wanted is not None)}")
    typer.echo(f"next: strop log {found.folder.name}, or strop run SUBJECT --from {found.folder.name}")


@app.command("verify")
def verify(file: File, expect: ExpectKey = None, as_json: AsJson = False) -> None:
    """Check an exported archive without importing it: signature, chains, trees and locks. Exit 4 if anything differs.

    Example: strop archive verify coder.strop
    """
    import tempfile

    import anyio

    from harness.archive.signing import checked_key
    from harness.cli.output import print_json
    from harness.research.transfer import import_archive

    wanted = None if expect is None else checked_key(expect)
    with tempfile.TemporaryDirectory(prefix="strop-verify-") as folder:
        found = anyio.run(lambda: import_archive(file, Path(folder), expect=wanted))
    if as_json:
        print_json({"ok": True, "header": dict(found.header), "verified": found.report.as_json()})
        return
    typer.echo(f"{file} is what was signed: {_told(found.header)}\nhead {found.report.hash}")
    typer.echo(f"signed by {_whose(found.key, expected=wanted is not None)}")


@app.command("key")
def key() -> None:
    """Print your public key, for those who import what you export; made on first use.

    Example: strop archive key
    """
    from harness.archive.signing import own_key, public_text

    typer.echo(public_text(own_key()))


def _told(header: Mapping[str, Json]) -> str:
    from harness.untrusted import line

    run, subject = (line(str(header[part]), 80) for part in ("run", "subject"))
    return f"run {run} of {subject}, {header['tickets']} tickets, {header['variants']} variants"


def _whose(signer: str, *, expected: bool) -> str:
    from harness.archive.signing import own_public_key

    if expected:
        return f"{signer} (as expected)"
    return f"{signer} ({'your own key' if signer == own_public_key() else 'ask its owner whether that is their key'})"
