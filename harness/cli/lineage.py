"""`strop lineage`: who descends from whom, and how each line of descent did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.arguments import DEFAULT_RUNS, AsJson, RunsFolder, complete_run, locate, split_run

if TYPE_CHECKING:
    from harness.research.lineage import Evidence, Kin, Lineage

COLUMNS = ("variant", "parents", "verdict", "solved", "mean [95 %]", "children", "clade", "clade mean [95 %]", "best")


def lineage(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN] [VARIANT]",
            help="The run (default: the last), then v7, root or best. Without a variant: the best clades.",
            show_default=False,
            autocompletion=complete_run,
        ),
    ] = None,
    top: Annotated[int, typer.Option(help="Most clades to list; 0 lists all.", min=0)] = 20,
    runs: RunsFolder = DEFAULT_RUNS,
    as_json: AsJson = False,
) -> None:
    """Show a variant's ancestors, children and clade; or every clade, the best first.

    A clade is a variant with all its descendants. Shares are posterior means with 95 % intervals, so that few tasks
    make nobody better. `strop diff --ancestors VARIANT` shows what each ancestor changed.

    Example: strop lineage last best
    """
    import anyio

    from harness.cli.output import print_json
    from harness.research.lineage import lineage_of, resolve

    run, variants = split_run(names or [], most=1)
    folder = locate(run, runs)
    found, standing = anyio.run(lineage_of, folder)
    if not variants:
        clades = found.clades(top)
        if as_json:
            print_json([kin.as_json() for kin in clades])
        else:
            _print_kin(clades)
            if len(found.known) > len(clades):
                typer.echo(f"{len(found.known) - len(clades)} more: --top 0")
        return
    name = resolve(standing, variants[0])
    line = [*found.ancestors(name), name]
    if as_json:
        children = [one for one in found.children.get(name, []) if one in found.known]
        below = found.descendants(name)
        told = {"ancestors": line[:-1], "child_ids": children, "descendants": below}
        print_json({**found.kin(name).as_json(), **told, "line": [found.kin(one).as_json() for one in line]})
        return
    _print_line(found, name, line)


def _print_line(found: Lineage, name: str, line: list[str]) -> None:
    kin = [found.kin(one) for one in line]
    _print_kin(kin)
    for one in kin:
        if one.note:
            typer.echo(f"{one.variant}: {one.note}")
    broken = [one for one in found.children.get(name, []) if one not in found.known]
    children = [one for one in found.children.get(name, []) if one in found.known]
    typer.echo(f"children of {name}: {' '.join(children) or 'none'}; tried {kin[-1].tried} times")
    if broken:
        typer.echo(f"recorded, never parents: {' '.join(broken)}")


def _print_kin(kin: list[Kin]) -> None:
    from harness.cli.output import print_rows

    rows = [
        [
            one.variant,
            " ".join(one.parents),
            one.verdict,
            "" if one.own is None else f"{one.own.solved:.4g}/{one.own.run:.4g}",
            _share(one.own),
            f"{one.children}",
            f"{one.clade}",
            _share(one.evidence),
            one.best or "",
        ]
        for one in kin
    ]
    print_rows(COLUMNS, rows, right={"solved", "children", "clade"})


def _share(found: Evidence | None) -> str:
    if found is None:
        return ""
    low, high = found.interval
    return f"{found.mean:.3f} [{low:.2f}, {high:.2f}]"
