"""`strop init`: a strop.toml for a project that exists, from flags, from answers, or from what is recognised."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.errors import InputError

if TYPE_CHECKING:
    from harness.cli.draft import Draft


def init(
    folder: Annotated[Path, typer.Argument(help="The project.")] = Path(),
    name: Annotated[str | None, typer.Option(help="What to call it.", show_default="the folder's name")] = None,
    editable: Annotated[
        list[str] | None,
        typer.Option(help="Glob of paths an agent may change. May be repeated.", show_default=False),
    ] = None,
    run: Annotated[str | None, typer.Option(help="The command that runs a variant.", show_default=False)] = None,
    mode: Annotated[
        str | None,
        typer.Option(help="split (scored in a second box) or inline (the eval imports it).", show_default=False),
    ] = None,
    score: Annotated[str | None, typer.Option(help="split: the command that scores.", show_default=False)] = None,
    metric: Annotated[str | None, typer.Option(help="The name of the number.", show_default=False)] = None,
    direction: Annotated[str | None, typer.Option(help="min or max.", show_default=False)] = None,
    result: Annotated[
        str | None, typer.Option(help="inline: where the number is read, file or stdout.", show_default=False)
    ] = None,
    span: Annotated[
        str | None, typer.Option("--range", help="What the number may be, as 0,1.", show_default="any finite")
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds one run may take.", show_default="60")] = None,
    visible: Annotated[
        str | None, typer.Option(help="split: folder with inputs/ and labels/.", show_default=False)
    ] = None,
    holdout: Annotated[str | None, typer.Option(help="split: the hidden cross-check.", show_default=False)] = None,
    vault: Annotated[str | None, typer.Option(help="split: opened once, at the end.", show_default=False)] = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing-splits", help="split: own up to having no holdout or vault.")
    ] = False,
) -> None:
    """Write FOLDER/strop.toml. Asks for what it cannot know; without a terminal it names the flags that are missing.

    An autoresearch folder (program.md, train.py, prepare.py) is read, never executed, and every value taken from it
    is shown with the line that says so; what no line says is asked. An existing strop.toml is never touched.

    Example: strop init . --mode inline --editable train.py --run "python train.py" --metric loss --direction min
    --result stdout
    """
    from harness.cli.draft import Draft, parse_range
    from harness.cli.recognise import recognise
    from harness.untrusted import clean

    path = folder / "strop.toml"
    if not folder.is_dir():
        raise InputError("no such folder", file=folder, mend="give the folder of an existing project")
    if path.exists() or path.is_symlink():
        raise InputError("is there already", file=path, mend="edit it; strop init never overwrites")
    given: dict[str, object] = {
        "name": name,
        "editable": editable or None,
        "run": run,
        "mode": mode,
        "score": score,
        "metric": metric,
        "direction": direction,
        "result": result,
        "range": None if span is None else parse_range(span),
        "timeout_s": timeout,
        "visible": visible,
        "holdout": holdout,
        "vault": vault,
        "allow_missing": allow_missing or None,
    }
    draft = Draft(folder, {key: value for key, value in given.items() if value is not None})
    found = recognise(folder, metric)
    draft.fill({key: item.value for key, item in found.items()})
    for key, item in found.items():
        if draft.values.get(key) is item.value:
            typer.echo(f"{key:<10} {draft.shown(key)}  ({clean(item.why)})")
    if draft.missing() and on_terminal():
        _ask(draft)
    draft.write(path)
    typer.echo(f"wrote {path}\nnext: strop doctor, then: strop run {folder}")


def on_terminal() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin.isatty()


def _ask(draft: Draft) -> None:
    from harness.cli.draft import QUESTIONS

    while missing := draft.missing():
        try:
            draft.answer(missing[0], typer.prompt(QUESTIONS[missing[0]]))
        except InputError as error:
            typer.echo(error.problem)
