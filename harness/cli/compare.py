"""`strop compare`: several agents at equal budgets and paired seeds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from harness.cli.arguments import DEFAULT_RUNS, AsJson, RunsFolder
from harness.errors import InputError

if TYPE_CHECKING:
    from harness.records import Json
    from harness.research.compare import Cell


def compare(
    subject: Annotated[Path, typer.Argument(help="The folder with a strop.toml.", show_default=False)],
    agents: Annotated[
        list[str],
        typer.Option("--agent", metavar="NAME[,KEY=VALUE...]", help="One to compare. Repeat it.", show_default=False),
    ],
    seeds: Annotated[int, typer.Option(help="How many paired seeds, from 0 up.", min=1)] = 5,
    rollouts: Annotated[
        int | None, typer.Option(help="Most runs of the eval, for each alike.", show_default="policy")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Most tickets, for each alike.", show_default="policy")] = None,
    workers: Annotated[int | None, typer.Option(help="As in `strop run`.", show_default="policy")] = None,
    policy: Annotated[str | None, typer.Option(help="As in `strop run`.", show_default="the subject's")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a policy key for all of them.", show_default=False),
    ] = None,
    runs: RunsFolder = DEFAULT_RUNS,
    as_json: AsJson = False,
) -> None:
    """Run several agents at equal budgets and paired seeds, and compare what the vault says of each.

    The selection gap is what a winner scored where it was chosen, minus what the vault says: how much of it was luck.
    An interrupted comparison goes on where it stood when it is asked for again.

    Example: strop compare archives/prompt-world --agent gepa --agent textgrad --agent opro --seeds 5 --rollouts 600
    """
    import anyio

    from harness.cli.output import print_json
    from harness.cli.settings import find_subject, gather, policy_path
    from harness.research.compare import compare as run_all
    from harness.research.compare import contender, table

    if len(agents) < 1:
        raise InputError("nothing to compare", mend="name agents: --agent gepa --agent opro")
    overrides = gather(settings or [], agent=None, steps=steps, rollouts=rollouts, wall=None, box=None)
    folder, chosen = find_subject(subject), policy_path(policy)

    async def go() -> list[Cell]:
        return await run_all(
            folder,
            [contender(text) for text in agents],
            range(seeds),
            overrides=overrides,
            runs=runs,
            policy=chosen,
            workers=workers,
            told=None if as_json else _tell,
        )

    cells = anyio.run(go)
    if as_json:
        from dataclasses import asdict

        print_json({"agents": table(cells), "runs": [asdict(cell) for cell in cells]})
    else:
        _print(table(cells))


def _tell(cell: Cell) -> None:
    typer.echo(f"{cell.label} seed {cell.seed}: vault {_number(cell.vault)}  ({cell.rollouts:g} rollouts, {cell.run})")


def _print(rows: list[dict[str, Json]]) -> None:
    from rich.table import Table

    from harness.cli.output import console

    shown = Table("agent", "runs", "vault", "least", "most", "against the first", "gap", "rollouts", "tokens", "wall s")
    for row in rows:
        vault = cast("dict[str, Any]", row["vault"])
        shown.add_row(
            str(row["agent"]),
            str(row["runs"]),
            _number(vault["mean"]),
            _number(vault["min"]),
            _number(vault["max"]),
            _difference(row["difference"]),
            _number(row["selection_gap"]),
            _number(row["rollouts"], 0),
            _number(row["tokens"], 0),
            _number(row["wall_s"], 1),
        )
    console().print(shown)


def _difference(value: Json) -> str:
    if not isinstance(value, dict):
        return ""
    interval = value["ci"]
    tail = f" [{_number(interval[0])}, {_number(interval[1])}]" if isinstance(interval, list) else ""
    return _number(value["mean"]) + tail


def _number(value: Json, digits: int = 3) -> str:
    return f"{value:.{digits}f}" if isinstance(value, int | float) else "-"
