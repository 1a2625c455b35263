"""The application: every command by name, and what happens when one of them fails."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from harness.cli import (
    archive,
    check,
    compare,
    doctor,
    export,
    image,
    init,
    inspect,
    lineage,
    logs,
    redteam,
    replay,
    report,
    run,
    verify,
)
from harness.cli.failure import THE_MACHINE, GuardedGroup, crash, refused, standard_streams

HELP = """
Let an agent improve a subject overnight; keep only what is really better.

A subject is a folder with a [bold]strop.toml[/bold]. A run proposes changes to it,
measures each in a sealed box, and keeps what holds up on data no agent saw.

[bold]Start here[/bold]

  strop doctor                  can this machine do it?

  strop init my-project         write a strop.toml for what you have

  strop run my-project          Ctrl-C drains, `strop resume` goes on

  strop export --to better/     take the winner home
"""
EPILOG = "Exit codes: 0 ok, 1 failed, 2 bad input, 3 missing environment, 4 integrity, 130 interrupted."

app = typer.Typer(
    name="strop",
    cls=GuardedGroup,
    help=HELP,
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say_version(wanted: bool) -> None:
    if wanted:
        from harness.version import VERSION

        typer.echo(f"strop {VERSION}")
        raise typer.Exit


@app.callback()
def strop(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """Holds the options that come before a command. Its text is `HELP`."""


def _version() -> None:
    """Print the version.

    Example: strop version
    """
    _say_version(True)


RUNNING, LOOKING, SETUP = "Run", "Look at a run", "Set up"
app.command("run", rich_help_panel=RUNNING)(run.run)
app.command("resume", rich_help_panel=RUNNING)(run.resume)
app.command("compare", rich_help_panel=RUNNING)(compare.compare)
app.command("status", rich_help_panel=LOOKING)(inspect.status)
app.command("list", rich_help_panel=LOOKING)(inspect.runs_here)
app.command("log", rich_help_panel=LOOKING)(logs.log)
app.command("show", rich_help_panel=LOOKING)(logs.show)
app.command("diff", rich_help_panel=LOOKING)(logs.diff)
app.command("lineage", rich_help_panel=LOOKING)(lineage.lineage)
app.command("report", rich_help_panel=LOOKING)(report.report)
app.command("verify", rich_help_panel=LOOKING)(verify.verify)
app.command("replay", rich_help_panel=LOOKING)(replay.replay)
app.command("export", rich_help_panel=LOOKING)(export.export)
app.command("init", rich_help_panel=SETUP)(init.init)
app.command("doctor", rich_help_panel=SETUP)(doctor.doctor)
app.command("check", rich_help_panel=SETUP)(check.check)
app.command("redteam", rich_help_panel=SETUP)(redteam.redteam)
app.add_typer(archive.app, name="archive", rich_help_panel=LOOKING)
app.add_typer(image.app, name="image", rich_help_panel=SETUP)
app.command("version", rich_help_panel=SETUP)(_version)


def main(argv: list[str] | None = None) -> None:
    """Run one command and leave the process with its exit code (SystemExit)."""
    words = sys.argv[1:] if argv is None else argv
    standard_streams()
    try:
        app(words, prog_name="strop")
    except SystemExit as leaving:
        try:
            sys.stdout.flush()
        except OSError as error:
            raise SystemExit(leaving.code or refused(error)) from None
        raise SystemExit(leaving.code) from None
    except OSError as error:
        if error.errno not in THE_MACHINE:
            crash(error)
            raise SystemExit(1) from None
        raise SystemExit(refused(error)) from None
    except Exception as error:
        if os.environ.get("STROP_DEBUG") == "1":
            raise
        crash(error)
        raise SystemExit(1) from None
