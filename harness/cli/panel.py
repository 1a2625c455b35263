"""The live panel of a run, drawn from its progress. Imported only where there is a terminal: rich is slow to load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from rich.console import Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from harness.cli.output import VERDICT_STYLE
from harness.cli.progress import Progress, said
from harness.report.claims import role_claims
from harness.report.numbers import change, count, duration, measured
from harness.untrusted import line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from harness.events import Event, TicketDecided
    from harness.records import Usage


class LiveDisplay:
    """A rich panel that is redrawn four times a second; what it said last stays on the terminal."""

    def __init__(self, console: Console, progress: Progress | None = None) -> None:
        self.progress = progress or Progress()
        self._live = Live(self, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def take(self, event: Event) -> None:
        self.progress.take(event)

    def say(self, notice: str) -> None:
        self.progress.notice = notice

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield panel(self.progress)


def panel(progress: Progress) -> RenderableType:
    """The whole display."""
    if progress.started is None:
        return Text(progress.notice or "opening the run ...", style="dim")
    parts: list[RenderableType] = [_bars(progress), _standing(progress), _counts(progress)]
    parts += [Text(f"{name} {told}", style="dim") for name, told in _roles(progress)]
    parts += [_decision(event) for event in list(progress.recent)]  # drawn by another thread than the one that adds
    if progress.waiting:
        parts.append(Text(progress.waiting, style="yellow"))
    parts.append(
        Text(progress.notice or progress.stopped or _doing(progress), style="yellow" if progress.notice else "dim")
    )
    return Panel(Group(*parts), title=_title(progress), title_align="left", border_style="blue", padding=(0, 1))


def _title(progress: Progress) -> Text:
    started = progress.started
    assert started is not None
    text = Text(
        f"strop {started.run_id} · {line(started.subject, 40)} · seed {started.seed} · {started.workers} workers · box "
    )
    text.append(started.isolation, style="bold red" if "no isolation" in started.isolation else "")
    return text


def _bars(progress: Progress) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(width=9)
    table.add_column(width=30)
    table.add_column(justify="left")
    eta = progress.eta_s
    steps = f"{progress.done}/{progress.limit}" + (f"   ETA {duration(eta)}" if eta is not None else "")
    table.add_row("steps", ProgressBar(total=max(1, progress.limit), completed=progress.done, width=30), steps)
    for name, usage in progress.budget.items():
        if name != "steps" and usage.limit is not None:
            table.add_row(name.removesuffix("_s"), _bar(usage), _used(name, usage))
    return table


def _bar(usage: Usage) -> ProgressBar:
    assert usage.limit is not None
    return ProgressBar(total=max(usage.limit, 1e-9), completed=min(usage.used, usage.limit), width=30)


def _used(name: str, usage: Usage) -> str:
    assert usage.limit is not None
    if name.endswith("_s"):
        return f"{duration(usage.used)}/{duration(usage.limit)}"
    return f"{count(usage.used)}/{count(usage.limit)}"


def _standing(progress: Progress) -> Text:
    started = progress.started
    assert started is not None
    text = Text()
    text.append(f"{started.metric} ({started.direction})  root {_root(progress)}")
    text.append(f"  best {progress.incumbent} ")
    text.append(measured(progress.incumbent_score, progress.incumbent_interval), style="bold")
    text.append(f"  {change(progress.incumbent_score, progress.root)}", style="green")
    if progress.noisy:
        text.append("  noisy metric: gains are confirmed on fresh pairs", style="dim")
    return text


def _root(progress: Progress) -> str:
    return "being measured" if progress.root is None else measured(progress.root, progress.root_interval)


def _roles(progress: Progress) -> list[tuple[str, str]]:
    """What each role of an optimizer took so far; before its first decision, which model each has."""
    named: Mapping[str, str] = progress.started.roles if progress.started is not None else {}
    return role_claims(progress.roles, asked=True) or [(role, line(model, 80)) for role, model in named.items()]


def _counts(progress: Progress) -> Text:
    text = Text()
    for verdict, times in progress.counts.items():
        if times:
            text.append(f"{verdict} {times}  ", style=VERDICT_STYLE.get(verdict, ""))
    text.append(f"holdout surprises {progress.surprises}", style="dim")
    return text


def _doing(progress: Progress) -> str:
    if not progress.in_flight:
        return "measuring"
    return "in flight: " + " ".join(f"t{ticket}" for ticket in sorted(progress.in_flight)[:12])


def _decision(event: TicketDecided) -> Text:
    """One decision, styled, with nothing of the candidate's read as markup."""
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{event.decision.variant or 't' + str(event.decision.ticket):>5} ")
    text.append(f"{event.decision.verdict:<11} ", style=VERDICT_STYLE.get(event.decision.verdict, ""))
    text.append(f"{measured(event.score, event.interval):<10} ")
    text.append(said(event, 120), style="dim")
    return text
