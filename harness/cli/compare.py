"""`strop compare`: agents or controls at equal budgets and paired seeds, or runs that are there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from harness.cli.arguments import DEFAULT_RUNS, AsJson, RunsFolder, locate
from harness.errors import InputError

if TYPE_CHECKING:
    from harness.records import Json
    from harness.research.compare import Cell, Contender

SEEDS = 5


def compare(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="SUBJECT|RUN...",
            help="A subject to run --agent or --control on; or finished runs, the first the baseline.",
            show_default=False,
        ),
    ],
    agents: Annotated[
        list[str] | None,
        typer.Option("--agent", metavar="NAME[,KEY=VALUE...]", help="One to compare. Repeat it.", show_default=False),
    ] = None,
    controls: Annotated[
        list[str] | None,
        typer.Option(
            "--control", metavar="NAME", help="none, random_parent or fixed_agent. Repeat it.", show_default=False
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="How many paired seeds, from 0 up.", min=1, show_default=str(SEEDS))
    ] = None,
    rollouts: Annotated[
        int | None, typer.Option(help="Most runs of the eval, for each alike.", show_default="policy")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Most tickets, for each alike.", show_default="policy")] = None,
    workers: Annotated[int | None, typer.Option(help="As in `strop run`.", show_default="policy")] = None,
    policy: Annotated[str | None, typer.Option(help="As in `strop run`.", show_default="the subject's")] = None,
    box: Annotated[
        Literal["auto", "docker", "embedded", "process"] | None,
        typer.Option(help="As in `strop run`.", show_default="policy"),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="An experiment file as in `strop run`, for all of them.", show_default=False),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a policy key for all of them.", show_default=False),
    ] = None,
    on: Annotated[
        Literal["vault", "holdout"], typer.Option(help="Of finished runs: the examples they are paired on.")
    ] = "vault",
    runs: RunsFolder = DEFAULT_RUNS,
    as_json: AsJson = False,
) -> None:
    """Compare agents or controls on SUBJECT at equal budgets and paired seeds; or finished RUNs example by example.

    Agents are judged on the vault alone. The selection gap is what a winner scored where it was chosen, minus what the
    vault says: how much of it was luck. An interrupted comparison goes on where it stood when it is asked for again.
    Runs are compared by their best variants, paired on the examples they share, with an interval and exact p.

    Example: strop compare archives/prompt-world --agent gepa --agent textgrad --seeds 5 --rollouts 600

    Example: strop compare coder-fixed coder-1 coder-2
    """
    if not agents and not controls:
        asked = {"--seeds": seeds, "--rollouts": rollouts, "--steps": steps, "--workers": workers}
        _compare_runs(
            names,
            {**asked, "--policy": policy, "--box": box, "--config": config, "--set": settings or None},
            on,
            runs,
            as_json=as_json,
        )
        return
    if len(names) > 1:
        raise InputError(f"{len(names)} subjects", file=names[1], mend="name one subject and agents or controls")
    if on != "vault":
        raise InputError("agents are compared on the vault", file="--on", mend="leave it out")
    import anyio

    from harness.cli.experiment import read_experiment
    from harness.cli.output import print_json
    from harness.cli.settings import find_subject, gather, policy_path
    from harness.research.compare import compare as run_all
    from harness.research.compare import table

    overrides = gather(settings or [], agent=None, steps=steps, rollouts=rollouts, wall=None, box=box)
    if config is not None:
        overrides = {**read_experiment(config), **overrides}
    folder, chosen, contenders = find_subject(Path(names[0])), policy_path(policy), _contenders(agents, controls)

    async def go() -> list[Cell]:
        return await run_all(
            folder,
            contenders,
            range(SEEDS if seeds is None else seeds),
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


def _contenders(agents: Sequence[str] | None, controls: Sequence[str] | None) -> list[Contender]:
    """Every agent under every control, each by what sets it apart."""
    from harness.research.compare import contender, under_control

    made = [contender(text) for text in agents or []]
    if not controls:
        return made
    return [under_control(one, control) for one in made or [None] for control in controls]


def _compare_runs(
    names: Sequence[str],
    misplaced: Mapping[str, object],
    on: Literal["vault", "holdout"],
    runs: Path,
    *,
    as_json: bool,
) -> None:
    import anyio

    from harness.cli.output import print_json
    from harness.records import Split
    from harness.report.numbers import measured
    from harness.research.versus import compared

    for flag, value in misplaced.items():
        if value is not None:
            raise InputError("goes with --agent or --control", file=flag, mend="finished runs are compared as they are")
    if len(names) < 2:
        mend = "name two or more runs, or agents for a subject: --agent gepa --agent opro"
        raise InputError("one name is no comparison", key="RUN", mend=mend)
    found = anyio.run(compared, [locate(name, runs) for name in names], Split(on))
    if as_json:
        print_json(found)
        return
    for row in found:
        control = "" if row["control"] == "none" else f"  ({row['control']})"
        known = measured(cast("float", row["mean"]), cast("list[float] | None", row["interval"]))
        if "gain" not in row:
            typer.echo(f"{row['run']}  best {row['best']}  {known} on {on}  (baseline){control}")
            continue
        low, high = cast("list[float]", row["ci"])
        exact = f", exact p {row['p_mcnemar']:.3g}" if "p_mcnemar" in row else ""
        typer.echo(
            f"{row['run']}  best {row['best']}  {known}  gain {row['gain']:+.4g} [{low:+.4g}, {high:+.4g}]"
            f" over {row['examples']} examples, p {row['p_bootstrap']:.3g}{exact}{control}"
        )
    if on == "holdout":
        typer.echo("winners were chosen with the holdout's help: these p are too small; the vault's are not")


def _tell(cell: Cell) -> None:
    typer.echo(f"{cell.label} seed {cell.seed}: vault {_number(cell.vault)}  ({cell.rollouts:g} rollouts, {cell.run})")


def _print(rows: list[dict[str, Json]]) -> None:
    from rich.table import Table

    from harness.cli.output import console

    columns = ("agent", "runs", "chosen", "vault", "least", "most", "against the first", "gap", "rollouts", "tokens")
    shown = Table(*columns, "wall s")
    for row in rows:
        vault = cast("dict[str, Any]", row["vault"])
        shown.add_row(
            str(row["agent"]),
            str(row["runs"]),
            _number(row["selected"]),
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
    if all(cast("dict[str, Any]", row["vault"])["mean"] is None for row in rows):
        typer.echo(
            "no run opened a vault, so nothing here is proved: `chosen` is what each reached in sight. "
            "Give the subject a vault to compare by it"
        )


def _difference(value: Json) -> str:
    if not isinstance(value, dict):
        return ""
    interval = value["ci"]
    tail = f" [{_number(interval[0])}, {_number(interval[1])}]" if isinstance(interval, list) else ""
    return _number(value["mean"]) + tail


def _number(value: Json, digits: int = 3) -> str:
    return f"{value:.{digits}f}" if isinstance(value, int | float) else "-"
