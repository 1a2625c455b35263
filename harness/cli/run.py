"""`strop run` and `strop resume`: the main job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from harness.cli.arguments import DEFAULT_RUNS, AsJson, Plain, Quiet, RunName, RunsFolder, locate
from harness.errors import InputError

if TYPE_CHECKING:
    from harness.cli.progress import Display
    from harness.records import Json
    from harness.research.run import Run

Record = Annotated[
    Path | None, typer.Option(help="Keep what models say in this file, for --replay.", show_default=False)
]
Replay = Annotated[
    Path | None, typer.Option(help="Answer model calls from such a file; nobody is asked.", show_default=False)
]
JsonEvents = Annotated[bool, typer.Option("--json-events", help="One JSON object an event, for another program.")]


def run(
    subject: Annotated[Path, typer.Argument(help="The folder with a strop.toml.", show_default=False)],
    seed: Annotated[int | None, typer.Option(help="Same seed and workers, same run.", show_default="0")] = None,
    workers: Annotated[int | None, typer.Option(help="Tickets in flight at once.", show_default="policy")] = None,
    policy: Annotated[
        str | None, typer.Option(help="A shipped policy's name, or a TOML file.", show_default="the subject's")
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="Who proposes: a name, or module:Name.", show_default="policy")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Most tickets.", show_default="policy")] = None,
    rollouts: Annotated[int | None, typer.Option(help="Most runs of the eval.", show_default="policy")] = None,
    wall: Annotated[str | None, typer.Option(help="Most time, as 90, 90s, 30m or 8h.", show_default="policy")] = None,
    box: Annotated[
        Literal["auto", "docker", "embedded", "process"] | None,
        typer.Option(help="Where candidates run; process is no isolation.", show_default="policy"),
    ] = None,
    control: Annotated[
        Literal["none", "random-parent", "fixed-agent"] | None,
        typer.Option(
            help="Of an archive, for comparison: random-parent or fixed-agent (no self-edit).", show_default="none"
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Override any policy key. May be repeated.", show_default=False
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", help="An experiment file, .toml or .yaml; options win over it.", show_default=False),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", help="An earlier run or an exported archive to begin with.", show_default=False),
    ] = None,
    start_best: Annotated[
        int | None, typer.Option("--from-best", help="Of --from: only so many.", min=1, show_default="all")
    ] = None,
    record: Record = None,
    replay: Replay = None,
    runs: RunsFolder = DEFAULT_RUNS,
    plain: Plain = False,
    json_events: JsonEvents = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Improve SUBJECT until its budget ends, then open the vault and say what is really better.

    The first Ctrl-C finishes the tickets in flight, the second aborts them; `strop resume` goes on.

    Example: strop run archives/digits --seed 0 --workers 2 --steps 40 --set gate.alpha=0.01
    """
    from harness.cli.experiment import read_experiment
    from harness.cli.settings import counted, find_subject, gather, policy_path

    counted("--workers", workers)
    overrides = gather(settings or [], agent=agent, steps=steps, rollouts=rollouts, wall=wall, box=box, control=control)
    if config is not None:
        overrides = {**read_experiment(config), **overrides}
    folder = find_subject(subject)
    chosen = policy_path(policy)
    if start is None and start_best is not None:
        raise InputError("of what?", file="--from-best", mend="say where to begin: --from RUN --from-best 20")
    before = None if start is None else Path(start) if Path(start).is_file() else locate(start, runs)

    def opening() -> AbstractAsyncContextManager[Run]:
        from harness.research.run import open_run

        return open_run(
            folder,
            seed=seed,
            workers=workers,
            policy=chosen,
            overrides=overrides,
            runs=runs,
            start=before,
            start_best=start_best,
            record=record,
            replay=replay,
        )

    display = _display(plain=plain, json_events=json_events, as_json=as_json, quiet=quiet)
    if not quiet and not as_json:
        _say_uncommitted(folder, display, events=json_events)
    _drive(opening, display, as_json=as_json, silent=json_events)


def _say_uncommitted(folder: Path, display: Display, *, events: bool) -> None:
    from harness.policy.load import SUBJECT_FILE
    from harness.repo.uncommitted import uncommitted
    from harness.report.claims import working_tree_claim

    found = uncommitted(folder, own=(SUBJECT_FILE,))
    text = working_tree_claim(found.as_json() if found else {})
    if text and events:
        display.say(text)
    elif text:
        typer.echo(f"strop: {text}", err=True)


def resume(
    name: RunName = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Raise a budget, and nothing else.", show_default=False),
    ] = None,
    record: Record = None,
    replay: Replay = None,
    runs: RunsFolder = DEFAULT_RUNS,
    plain: Plain = False,
    json_events: JsonEvents = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a run that was interrupted, by Ctrl-C or by anything worse.

    Nothing finished is run again, and the end is the one the uninterrupted run would have had. A budget may be raised
    on the way; the ledger and the report tell it.

    Example: strop resume last --set budget.requests=4000
    """
    from harness.cli.settings import gather

    overrides = gather(settings or [])
    folder = locate(name, runs)
    summary = _standing(folder)

    def opening() -> AbstractAsyncContextManager[Run]:
        from harness.research.run import resume_run

        return resume_run(folder, overrides=overrides, record=record, replay=replay)

    display = _display(plain=plain, json_events=json_events, as_json=as_json, quiet=quiet)
    display.progress.prime(summary)
    _drive(opening, display, as_json=as_json, silent=json_events)


def _standing(folder: Path) -> Mapping[str, Json]:
    import anyio

    from harness.research.summary import summarize

    return anyio.run(summarize, folder)


def _drive(
    opening: Callable[[], AbstractAsyncContextManager[Run]], display: Display, *, as_json: bool, silent: bool
) -> None:
    import anyio

    from harness.cli.drive import ABORTED, Driver
    from harness.cli.ending import ending

    driver = Driver(display)
    with display:
        anyio.run(driver.drive, opening)
    if driver.aborted:
        typer.echo(f"strop: {ABORTED}", err=True)
    if driver.folder:
        anyio.run(ending, Path(driver.folder), as_json, silent)
    if driver.exit_code:
        raise typer.Exit(driver.exit_code)


def _display(*, plain: bool, json_events: bool, as_json: bool, quiet: bool) -> Display:
    from harness.cli.output import console
    from harness.cli.progress import JsonDisplay, PlainDisplay, QuietDisplay, write_error, write_line

    if json_events and as_json:
        raise InputError("--json-events and --json both want stdout", mend="give one of them")
    if json_events:
        return JsonDisplay(write_line)
    if quiet or as_json:
        return QuietDisplay(write_error)
    out = console()
    if plain or not out.is_terminal or out.is_dumb_terminal:
        return PlainDisplay(write_line)
    from harness.cli.panel import LiveDisplay

    return LiveDisplay(out)
