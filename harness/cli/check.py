"""`strop check`: is this eval fit for a night? Free of models; exit 1 on a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli.arguments import AsJson
from harness.untrusted import line

STYLE = {"ok": "green", "warning": "yellow", "failed": "bold red"}


def check(
    subject: Annotated[Path, typer.Argument(help="The folder with a strop.toml.", show_default=False)],
    strict: Annotated[bool, typer.Option("--strict", help="A warning fails as well.")] = False,
    policy: Annotated[
        str | None, typer.Option(help="A shipped policy's name, or a TOML file.", show_default="the subject's")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Most tickets.", show_default="policy")] = None,
    rollouts: Annotated[int | None, typer.Option(help="Most runs of the eval.", show_default="policy")] = None,
    box: Annotated[
        Literal["auto", "docker", "embedded", "process"] | None,
        typer.Option(help="Where candidates run; process is no isolation.", show_default="policy"),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Override any policy key. May be repeated.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Try everything a run on SUBJECT will rest on: noise, splits, scorer, budget, box. No model is asked.

    Says the smallest gain the eval can accept and what that costs. Exit 1 on a failure.

    Example: strop check my-project --strict
    """
    from dataclasses import asdict

    import anyio
    from rich.table import Table
    from rich.text import Text

    from harness.cli.output import console, print_json
    from harness.cli.settings import find_subject, gather, policy_path
    from harness.research.preflight.check import check as look

    overrides = gather(settings or [], agent=None, steps=steps, rollouts=rollouts, wall=None, box=box)
    folder, chosen = find_subject(subject), policy_path(policy)
    found = anyio.run(lambda: look(folder, policy=chosen, overrides=overrides))
    bad = [one for one in found if one.state == "failed" or (strict and one.state == "warning")]
    if as_json:
        print_json({"ok": not bad, "findings": [asdict(one) for one in found]})
    else:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("what", "", "found", "how to mend"):
            table.add_column(column, overflow="fold")
        for one in found:
            table.add_row(one.name, Text(one.state, style=STYLE[one.state]), line(one.detail, 300), line(one.mend, 300))
        console().print(table)
    if bad:
        raise typer.Exit(1)
