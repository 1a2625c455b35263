"""What a run looks like while it goes: one state fed by events, drawn live or as plain lines."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from harness.cli.failure import silence
from harness.clock import Clock, SystemClock
from harness.events import (
    Event,
    ModelAwaited,
    Notice,
    RootMeasured,
    RunFinished,
    RunStarted,
    RunStopped,
    TicketDecided,
    TicketStarted,
)
from harness.report.claims import brief, role_claims, title_claim
from harness.report.numbers import as_float, change, duration, measured, part
from harness.untrusted import line

if TYPE_CHECKING:
    from harness.records import Json, Usage

SHOWN_DECISIONS = 8


@dataclass(slots=True)
class Progress:
    """Everything the displays know. `take` is the only way in."""

    clock: Clock = field(default_factory=SystemClock)
    started: RunStarted | None = None
    root: float | None = None
    noisy: bool = False
    incumbent: str = "v0"
    incumbent_score: float | None = None
    root_interval: Sequence[float] | None = None
    incumbent_interval: Sequence[float] | None = None
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    budget: Mapping[str, Usage] = field(default_factory=dict[str, "Usage"])
    surprises: int = 0
    in_flight: set[int] = field(default_factory=set[int])
    recent: deque[TicketDecided] = field(default_factory=lambda: deque[TicketDecided](maxlen=SHOWN_DECISIONS))
    decided_here: int = 0
    first_start: float | None = None
    stopped: str = ""
    notice: str = ""
    awaited: dict[str, tuple[ModelAwaited, float]] = field(default_factory=dict[str, tuple[ModelAwaited, float]])
    roles: Mapping[str, Json] = field(default_factory=dict[str, "Json"])

    def take(self, event: Event) -> None:
        match event:
            case RunStarted():
                self.started = event
            case RootMeasured():
                self.root = self.incumbent_score = event.score
                self.root_interval = self.incumbent_interval = event.interval
                self.noisy = not event.deterministic
            case TicketStarted():
                self.in_flight.add(event.ticket)
                self.first_start = self.clock.monotonic() if self.first_start is None else self.first_start
            case TicketDecided():
                self._decided(event)
            case RunStopped():
                self.stopped = f"{event.reason}: {event.detail}" if event.detail else event.reason
            case Notice():
                self.notice = event.text
            case ModelAwaited(reason=""):
                self.awaited.pop(event.model, None)
            case ModelAwaited():
                self.awaited[event.model] = event, self.clock.monotonic() - event.waited_s
            case _:
                pass

    @property
    def waiting(self) -> str:
        """Which models are waited for and how long by now; empty for none."""
        now = self.clock.monotonic()
        return "; ".join(waiting_line(event, now - since) for event, since in list(self.awaited.values()))

    def prime(self, summary: Mapping[str, Json]) -> None:
        """Take over what earlier sessions of a resumed run came to."""
        root, incumbent, holdout = part(summary, "root"), part(summary, "incumbent"), part(summary, "holdout")
        self.root = as_float(root.get("metric"))
        self.incumbent = str(incumbent.get("id") or self.incumbent)
        self.incumbent_score = as_float(incumbent.get("metric"))
        self.root_interval, self.incumbent_interval = _ends(root), _ends(incumbent)
        self.counts = {name: int(as_float(count) or 0) for name, count in part(summary, "counts").items()}
        self.surprises = int(as_float(holdout.get("surprises")) or 0)

    def _decided(self, event: TicketDecided) -> None:
        self.in_flight.discard(event.decision.ticket)
        self.incumbent, self.incumbent_score = event.incumbent, event.incumbent_score
        self.incumbent_interval = event.incumbent_interval
        self.counts, self.budget, self.surprises = event.counts, event.budget, event.surprises
        self.roles = event.roles
        self.decided_here += 1
        self.recent.append(event)

    @property
    def done(self) -> int:
        """Decided tickets over all sessions."""
        return sum(self.counts.values())

    @property
    def limit(self) -> int:
        """How many tickets the run may take."""
        return self.started.steps if self.started else 0

    @property
    def eta_s(self) -> float | None:
        """Seconds to go at this session's pace, or until the wall budget ends; None before the first decision."""
        if not self.decided_here or self.first_start is None:
            return None
        pace = (self.clock.monotonic() - self.first_start) / self.decided_here
        left = pace * max(0, self.limit - self.done)
        wall = self.budget.get("wall_s")
        return left if wall is None or wall.limit is None else min(left, max(0.0, wall.limit - wall.used))


def _ends(side: Mapping[str, Json]) -> list[float] | None:
    found = side.get("interval")
    return [as_float(one) or 0.0 for one in found] if isinstance(found, list) else None


class Display(Protocol):
    """Something that shows a run. Entered once, fed every event, told notices."""

    progress: Progress

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def take(self, event: Event) -> None: ...

    def say(self, notice: str) -> None: ...


class PlainDisplay:
    """One line a decision, for logs and pipes."""

    def __init__(self, write: Callable[[str], None], progress: Progress | None = None) -> None:
        self._write = write
        self.progress = progress or Progress()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def say(self, notice: str) -> None:
        self._write(f"strop: {notice}")

    def take(self, event: Event) -> None:
        self.progress.take(event)
        text = plain_line(self.progress, event)
        if text:
            self._write(text)


class QuietDisplay(PlainDisplay):
    """Shows nothing but notices."""

    def take(self, event: Event) -> None:
        self.progress.take(event)
        if isinstance(event, Notice):
            self.say(event.text)


class JsonDisplay(PlainDisplay):
    """One JSON object an event, for another program."""

    def take(self, event: Event) -> None:
        self.progress.take(event)
        self._write(json.dumps({"event": type(event).__name__, **asdict(event)}, ensure_ascii=False, default=_as_json))

    def say(self, notice: str) -> None:
        self._write(json.dumps({"event": "Notice", "text": notice}, ensure_ascii=False))


def _as_json(value: object) -> object:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def plain_line(progress: Progress, event: Event) -> str:
    """The line an event makes in a plain log; empty when it makes none."""
    text = ""
    match event:
        case RunStarted():
            text = _started_line(event)
        case RootMeasured():
            sure = "deterministic" if event.deterministic else f"noise {event.noise:.3g}"
            text = f"root v0 {measured(event.score, event.interval)} ({sure})"
        case TicketDecided():
            text = _decision_line(progress, event)
        case RunStopped():
            text = f"stopped: {line(progress.stopped)}"
        case RunFinished():
            text = str(event.summary["state"])
        case Notice():
            text = f"strop: {line(event.text, 400)}"
        case ModelAwaited(reason=""):
            text = f"no longer waiting for model {line(event.model, 80)}"
        case ModelAwaited():
            text = waiting_line(event, event.waited_s)
        case _:
            pass
    return text


def _started_line(event: RunStarted) -> str:
    verb = "resumed" if event.resumed else "started"
    roles = "\nroles: " + ", ".join(f"{role} {line(model)}" for role, model in event.roles.items())
    return (
        f"{verb} {event.run_id}: {line(event.subject)}, {event.metric} ({event.direction}), seed {event.seed}, "
        f"{event.workers} workers, {event.steps} steps, box {event.isolation}\nfolder {event.folder}"
        f"{roles if event.roles else ''}"
    )


def _decision_line(progress: Progress, event: TicketDecided) -> str:
    width = len(str(progress.limit))
    eta = progress.eta_s
    known = measured(event.incumbent_score, event.incumbent_interval)
    best = f"best {event.incumbent} {known} {change(event.incumbent_score, progress.root)}"
    told = "  ".join(
        part
        for part in (
            f"[{progress.done:>{width}}/{progress.limit}]",
            f"{event.decision.variant or 't' + str(event.decision.ticket):<5}",
            f"{event.decision.verdict:<10}",
            f"{measured(event.score, event.interval):<10}",
            best.rstrip(),
            f"eta {duration(eta)}" if eta is not None else "",
            said(event, 80),
        )
        if part
    )
    title = title_claim(event.decision.evidence)
    told += f"\n    {title}" if title else ""
    return "\n".join([told, *(f"    {name} {text}" for name, text in role_claims(event.roles, asked=True))])


def waiting_line(event: ModelAwaited, waited_s: float) -> str:
    """What a run waits for, in one line."""
    return (
        f"waiting for model {line(event.model, 80)}: {line(event.reason, 200)}, "
        f"{waited_s:.0f} s of {event.patience_s:g}; the run stops then and can be resumed"
    )


def said(event: TicketDecided, width: int) -> str:
    """What the proposer said of it, or else the reason, on one line of at most `width` characters."""
    text = brief(event.note or event.decision.reason, 400)
    return text if len(text) <= width else text[: width - 3] + "..."


def write_line(text: str) -> None:
    """A line on stdout, at once."""
    _write(sys.stdout, text)


def write_error(text: str) -> None:
    """A line on stderr, at once."""
    _write(sys.stderr, text)


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text + "\n")
        stream.flush()
    except OSError:
        # whoever was reading has gone, or the disk is full; the run is worth more than its log
        silence(stream)
