"""What a person sees when a command fails: one sentence and what to do next, never a traceback."""

from __future__ import annotations

import errno
import io
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
CANNOT = 3
THE_MACHINE = {
    errno.EACCES, errno.EDQUOT, errno.EIO, errno.ELOOP, errno.EMFILE, errno.ENAMETOOLONG, errno.ENFILE, errno.ENOMEM,
    errno.ENOSPC, errno.EPERM, errno.EROFS,
}  # fmt: skip


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
        except OSError as error:
            if error.errno not in THE_MACHINE:
                raise
            raise typer.Exit(refused(error)) from error
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


def refused(error: OSError) -> int:
    """Say what the machine would not do; returns the exit code. Without a name it was standard output."""
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        typer.echo(f"strop: error: {error.strerror}", err=True)
        typer.echo("  mend: raise the limit on open files, e.g. `ulimit -n 4096`, then do it again", err=True)
        return CANNOT
    if error.filename is None:
        silence(sys.stdout)
    what = _printable(str(error.filename))[:200] if error.filename is not None else "standard output"
    typer.echo(f"strop: error: {what}: {error.strerror}", err=True)
    typer.echo("  mend: free space, fix its permissions or name another place, then do it again", err=True)
    return CANNOT


class Patient(io.TextIOWrapper):
    """A standard stream whose reader may leave early: what is still said goes nowhere, and the exit code stays."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except BrokenPipeError:
            silence(self)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except BrokenPipeError:
            silence(self)


def standard_streams() -> None:
    """Standard output and error that a command can always write to, also when they are closed or their reader goes."""
    for name in ("stdout", "stderr"):
        stream: Any = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 - as long as the process lives
        elif type(stream) is io.TextIOWrapper:
            # the stream it had stays referenced by sys.__stdout__ and leaves the buffer open
            patient = Patient(
                stream.buffer, encoding=stream.encoding, errors=stream.errors, line_buffering=stream.line_buffering
            )
            setattr(sys, name, patient)


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
    for error in found:
        if isinstance(error, OSError) and error.errno in THE_MACHINE:
            return refused(error)
    if isinstance(found[0], Exception):
        if os.environ.get("STROP_DEBUG") == "1":
            traceback.print_exception(group)
        crash(found[0])
        return 1
    raise group


def _printable(text: str) -> str:
    from harness.untrusted import clean

    return clean(text)
