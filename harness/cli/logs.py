"""`strop log`, `strop show` and `strop diff`: what was tried, decision by decision."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.arguments import DEFAULT_RUNS, AsJson, RunName, RunsFolder, complete_run, locate, split_run
from harness.errors import InputError

FAILED_BY = "the agent failed: "

if TYPE_CHECKING:
    from harness.report.view import RunView, TicketView


def log(
    name: RunName = None,
    runs: RunsFolder = DEFAULT_RUNS,
    as_json: AsJson = False,
    tsv: Annotated[bool, typer.Option("--tsv", help="autoresearch's results.tsv columns.")] = False,
) -> None:
    """List every decision of a run, in order, with its metric, what the proposer said and why it was not kept.

    The reasons in brackets are for you: a proposer hears one sentence, and nothing of the holdout.
    A crash has no metric: its field is empty, never 0.

    Example: strop log last --tsv > results.tsv
    """
    if as_json and tsv:
        raise InputError("--json and --tsv both want stdout", mend="give one of them")
    view = _view(locate(name, runs))
    if as_json:
        from harness.cli.output import print_json

        print_json([ticket_json(ticket) for ticket in view.tickets])
    elif tsv:
        from harness.report.results import results_tsv

        typer.echo(results_tsv(view), nl=False)
    else:
        _print_log(view)


def show(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN] VARIANT",
            help="The run (default: the last), then v7, t7, root or best.",
            show_default=False,
            autocompletion=complete_run,
        ),
    ] = None,
    runs: RunsFolder = DEFAULT_RUNS,
    as_json: AsJson = False,
) -> None:
    """Show one variant: where it came from, how it did, why it was kept or not, and its diff.

    A ticket that archived nothing is shown by its number, as t7.

    Example: strop show last best
    """
    run, variants = split_run(names or [], most=1)
    if not variants:
        raise InputError("which variant?", mend="for example: strop show last best")
    view = _view(locate(run, runs), patches=True)
    if as_json:
        from harness.cli.output import print_json

        print_json(_shown(view, variants[0]))
    else:
        _print_shown(view, variants[0])


def diff(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN] [A] [B]",
            help="The run, then two variants (default: root and best).",
            show_default=False,
            autocompletion=complete_run,
        ),
    ] = None,
    ancestors: Annotated[
        bool, typer.Option("--ancestors", help="One diff for each generation, from the root.")
    ] = False,
    runs: RunsFolder = DEFAULT_RUNS,
    as_json: AsJson = False,
) -> None:
    """Print the unified diff between two variants: by default everything the run has won, from root to best.

    With A alone, from root to A; with --ancestors, what each generation on the way to A changed. To apply it,
    use `strop export --patch`, which leaves the bytes as they are.

    Example: strop diff last v3 best
    """
    run, variants = split_run(names or [], most=2)
    if ancestors:
        if len(variants) > 1:
            raise InputError("--ancestors takes one variant", mend="for example: strop diff last best --ancestors")
        _print_steps(locate(run, runs), (variants or ["best"])[0], as_json=as_json)
        return
    old, new = ("root", *(variants or ["best"])) if len(variants) < 2 else (variants[0], variants[1])
    text = _patch_between(locate(run, runs), old, new)
    if as_json:
        from harness.cli.output import print_json

        print_json({"old": old, "new": new, "patch": text})
    else:
        _print_diff(text)


def _view(folder: Path, *, patches: bool = False) -> RunView:
    import functools

    import anyio

    from harness.report.view import load

    return anyio.run(functools.partial(load, folder, patches=patches))


def _print_steps(folder: Path, name: str, *, as_json: bool) -> None:
    import anyio

    from harness.cli.output import print_json
    from harness.report.patches import generations

    steps = anyio.run(generations, folder, name)
    if as_json:
        print_json([{"parent": step.parent, "variant": step.variant, "patch": step.patch} for step in steps])
        return
    for step in steps:
        typer.echo(f"# {step.parent} -> {step.variant}  {step.note}")
        _print_diff(step.patch)


def _patch_between(folder: Path, old: str, new: str) -> str:
    import anyio

    from harness.report.patches import Patches

    view = _view(folder)
    return anyio.run(Patches(folder).between, view.variant(old).tree, view.variant(new).tree)


def ticket_json(ticket: TicketView) -> dict[str, object]:
    """A decision as JSON, without its diff."""
    from dataclasses import asdict

    fields = asdict(ticket)
    fields.pop("patch")
    return {**fields, "why": ticket.why}


def _shown(view: RunView, name: str) -> dict[str, object]:
    from dataclasses import asdict

    ticket = view.ticket(name)
    if ticket is None:
        return {
            "variant": view.root.id,
            "tree": view.root.tree,
            "score": view.root.score,
            "interval": view.root_interval,
            "ticket": None,
            "patch": "",
        }
    rollouts = [asdict(rollout) for rollout in view.rollouts_of(ticket)]
    return {**ticket_json(ticket), "patch": ticket.patch, "rollouts": rollouts}


def _print_log(view: RunView) -> None:
    from rich.text import Text

    from harness.cli.output import VERDICT_STYLE, print_rows
    from harness.report.numbers import change, measured

    columns = ("ticket", "variant", "parent", "verdict", view.metric, "change", "note")
    known = measured(view.root.score, view.root_interval)
    rows: list[list[str | Text]] = [["", view.root.id, "", "root", known, "", "as it was given"]]
    rows += [
        [
            f"t{ticket.ticket}",
            ticket.variant or "",
            ticket.parent,
            Text(ticket.verdict, style=VERDICT_STYLE.get(ticket.verdict, "")),
            measured(ticket.score, ticket.interval),
            change(ticket.score, ticket.parent_score),
            _noted(ticket),
        ]
        for ticket in view.tickets
    ]
    print_rows(columns, rows, right={view.metric, "change"})


def _noted(ticket: TicketView) -> str:
    """What the proposer said and, of what was not kept, the cause."""
    if not ticket.note:
        return ticket.why
    if ticket.verdict == "no_proposal" and _same(ticket):
        return ticket.why
    return ticket.note if ticket.verdict == "kept" else f"{ticket.note}  ({ticket.why})"


def _same(ticket: TicketView) -> bool:
    """Whether the reason is the note again, as where the agent failed; one may be cut."""
    return bool(ticket.note) and ticket.why.removeprefix(FAILED_BY).startswith(ticket.note[:100])


def _print_shown(view: RunView, name: str) -> None:
    import functools

    from harness.cli.output import console
    from harness.report.claims import evidence_rows
    from harness.report.numbers import measured, metric
    from harness.untrusted import line

    out = functools.partial(console().print, soft_wrap=True)
    shown = _shown(view, name)
    ticket = view.ticket(name)
    out(f"{shown['variant'] or name} of run {view.run_id}", style="bold")
    out(f"  tree      {shown['tree'] or 'none: the proposal was refused'}")
    if ticket is None:
        out(f"  {view.metric} {measured(view.root.score, view.root_interval)}; the root, as it was given")
        return
    out(f"  verdict   {ticket.verdict}: {ticket.reason}")
    if ticket.why != ticket.reason:
        out(f"  why       {ticket.why}")
    out(f"  parent    {ticket.parent} ({view.metric} {metric(ticket.parent_score)})")
    out(f"  {view.metric:<9} {measured(ticket.score, ticket.interval)}")
    if not _same(ticket):
        out(f"  note      {ticket.note}")
    for violation in ticket.violations:
        out(f"  violation {violation}", style="red")
    for rollout in view.rollouts_of(ticket):
        where = f"{rollout.purpose} on {rollout.split}"
        out(f"  rollout   {where}: {rollout.status} {metric(rollout.score)}, {rollout.wall_s:.2f} s")
        if rollout.detail:
            out(f"            {line(rollout.detail)}")
    for stage, numbers in evidence_rows(ticket.evidence):
        out(f"  {stage:<9} {numbers}")
    _print_diff(ticket.patch)


def _print_diff(text: str) -> None:
    from rich.syntax import Syntax

    from harness.cli.output import console

    out = console()
    if out.is_terminal:
        out.print(Syntax(text, "diff", background_color="default", word_wrap=True))
    elif text:
        typer.echo(text, nl=not text.endswith("\n"))
