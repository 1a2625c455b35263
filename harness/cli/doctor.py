"""`strop doctor`: can this machine do what a run needs? Each answer is a probe, never a version number."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from harness.cli.arguments import DEFAULT_RUNS, AsJson, RunsFolder, sweep_boxes

if TYPE_CHECKING:
    from harness.cli.probes import Check


BoxName = Literal["auto", "docker", "embedded", "process"]


def doctor(
    box: Annotated[BoxName, typer.Option(help="The box to prove; process is no isolation.")] = "auto",
    image: Annotated[str | None, typer.Option(help="The image of docker boxes.", show_default="strop-box")] = None,
    model: Annotated[
        str | None, typer.Option(help="Also prove a model of the policy with one call.", show_default=False)
    ] = None,
    subject: Annotated[Path, typer.Option(help="Whose strop.toml names the models.")] = Path(),
    runs: RunsFolder = DEFAULT_RUNS,
    as_json: AsJson = False,
) -> None:
    """Prove that this machine can run strop: python, git, a durable write, a sealed box, free disk, a model.

    Exit 3 when something needed is missing; each failure says how to mend it.

    Example: strop doctor --box embedded
    """
    from dataclasses import asdict

    import anyio

    from harness.cli.output import print_json, working
    from harness.cli.probes import examine
    from harness.policy.load import SUBJECT_FILE

    sweep_boxes()
    with working("looking at this machine") as told:
        checks = anyio.run(partial(examine, told=told), box, _nearest(runs), image)
    if model is not None:
        from harness.cli.model_probe import probe_model

        checks.append(anyio.run(probe_model, model, subject))
    elif (subject / SUBJECT_FILE).is_file():
        from harness.cli.model_probe import needed_model

        checks += needed_model(subject)
    healthy = all(check.ok for check in checks if check.needed)
    if as_json:
        print_json({"ok": healthy, "checks": [asdict(check) for check in checks]})
    else:
        _print(checks)
    if not healthy:
        raise typer.Exit(3)


def _nearest(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that exists: where it would be made."""
    absolute = folder.absolute()
    return next(place for place in (absolute, *absolute.parents) if place.is_dir())


def _print(checks: list[Check]) -> None:
    from rich.table import Table
    from rich.text import Text

    from harness.cli.output import NARROW, console, print_rows

    out = console()
    if not out.is_terminal or out.width < NARROW:
        plain = [[one.name, _word(one)[0], one.detail if one.ok else f"{one.detail}; {one.mend}"] for one in checks]
        print_rows(("what", "", "found"), plain)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("what", "", "found", "how to mend"):
        table.add_column(column, overflow="fold")
    for check in checks:
        word, style = _word(check)
        table.add_row(check.name, Text(word, style=style), check.detail, "" if check.ok else check.mend)
    out.print(table)


def _word(check: Check) -> tuple[str, str]:
    promise = check.name.startswith("box ")
    if not check.ok:
        return "not held" if promise else "failed", "bold red"
    if promise:
        return ("held", "green") if check.needed else ("not applicable", "dim")
    return ("ok", "green") if check.needed else ("-", "dim")
