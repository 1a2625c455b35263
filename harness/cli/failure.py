"""What a person sees when a command fails: one sentence and what to do next, never a traceback."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import typer
from typer.core import TyperGroup

from harness.errors import StropError

INTERRUPTED = 130


class GuardedGroup(TyperGroup):
    """The command group that turns errors into messages and exit codes, in a process and under a test runner."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - typer's own signature; its context class moved between versions
        try:
            return super().invoke(ctx)
        except StropError as error:
            raise typer.Exit(explain(error)) from error
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            silence(sys.stdout)
            raise typer.Exit(0) from None
        except BaseExceptionGroup as group:
            raise typer.Exit(_explain_group(group)) from group


def explain(error: StropError) -> int:
    """Print the error and its mend to stderr; returns the exit code. STROP_DEBUG=1 adds the traceback."""
    if os.environ.get("STROP_DEBUG") == "1":
        traceback.print_exception(error)
    message, mend = _printable(error.message), _printable(error.mend)
    typer.echo(f"strop: error: {message}", err=True)
    if mend:
        typer.echo(f"  mend: {mend}", err=True)
    return error.exit_code


def crash(error: Exception) -> None:
    """Say where an unexpected error came from and ask for a report."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}harness{os.sep}" in frame.filename] or list(frames)
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno} in {ours[-1].name}" if ours else "an unknown place"
    typer.echo(f"strop: unexpected {type(error).__name__} at {where}: {_printable(str(error))}", err=True)
    typer.echo("  This is a fault in strop. Please report it with the output of STROP_DEBUG=1.", err=True)
    typer.echo("  A run that was under way can be resumed with `strop resume`.", err=True)


def silence(stream: TextIO) -> None:
    """The reader of this stream has gone: what is still said goes nowhere, and leaving does not complain either."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """Every error in a group of groups."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)  # pyright: ignore[reportUnknownArgumentType] - isinstance cannot know the leaf type
        else:
            yield error


def _explain_group(group: BaseExceptionGroup[BaseException]) -> int:
    found = list(leaves(group))
    for error in found:
        if isinstance(error, StropError):
            return explain(error)
    if any(isinstance(error, KeyboardInterrupt) for error in found):
        return INTERRUPTED
    if isinstance(found[0], Exception):
        if os.environ.get("STROP_DEBUG") == "1":
            traceback.print_exception(group)
        crash(found[0])
        return 1
    raise group


def _printable(text: str) -> str:
    from harness.untrusted import clean

    return clean(text)
