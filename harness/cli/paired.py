"""`strop paired`: finished runs of one subject against each other, example by example."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.arguments import DEFAULT_RUNS, AsJson, RunsFolder, locate


def paired(
    names: Annotated[list[str], typer.Argument(metavar="RUN...", help="Two runs or more; the first is the baseline.")],
    runs: RunsFolder = DEFAULT_RUNS,
    as_json: AsJson = False,
) -> None:
    """Compare the best of each run with the first run's, paired on the vault that they share.

    Example: strop paired coder-fixed coder-random coder-1
    """
    import anyio

    from harness.cli.output import print_json
    from harness.errors import InputError
    from harness.research.versus import compared

    if len(names) < 2:
        raise InputError("one run is no comparison", key="RUN", mend="name two or more; `strop list` shows them")
    found = anyio.run(compared, [locate(name, runs) for name in names])
    if as_json:
        print_json(found)
        return
    for row in found:
        if "gain" not in row:
            typer.echo(f"{row['run']}  best {row['best']}  {row['mean']:.4g}  (baseline)")
            continue
        low, high = row["ci"]  # pyright: ignore
        exact = f", exact p {row['p_mcnemar']:.3g}" if "p_mcnemar" in row else ""
        typer.echo(
            f"{row['run']}  best {row['best']}  {row['mean']:.4g}  gain {row['gain']:+.4g} [{low:+.4g}, {high:+.4g}]"
            f" over {row['examples']} examples, p {row['p_bootstrap']:.3g}{exact}"
        )
