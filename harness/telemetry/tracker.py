"""Experiment trackers: anything with `log(numbers, step)`, as wandb's runs have it, or a function that is called so.

They run in the user's own process and may be slow or broken: each is called in a thread of its own, in order, and one
that raises is told once and left alone from then on. Nothing of it ever decides anything.
"""

from __future__ import annotations

import inspect
import queue
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Protocol, cast, runtime_checkable

from harness.errors import InputError
from harness.events import Event, RootMeasured, RunFinished, TicketDecided
from harness.model.base import Caller, Seen
from harness.records import Json, RolloutKey, Verdict
from harness.telemetry.base import ended
from harness.untrusted import line

GROUP = "harness.trackers"
Number = float | int
LogFunction = Callable[[Mapping[str, Number], int], object]
CLOSE_S = 10.0


@runtime_checkable
class Tracker(Protocol):
    """An object that takes numbers: step 0 is the root, step k the k-th ticket."""

    def log(self, data: Mapping[str, Number], /, step: int) -> object: ...


def find(name: str) -> Tracker | LogFunction:
    """The tracker called `name`: an entry point of `harness.trackers`, or module:attribute.

    An object with `log`, a class of such objects (made without arguments), or a function of (numbers, step). Raises
    InputError.
    """
    points = {point.name: point.value for point in entry_points(group=GROUP)}
    target = name if ":" in name else points.get(name)
    if target is None:
        known = ", ".join(sorted(points)) or "none installed"
        raise InputError(
            f"no tracker called {name!r}", key="telemetry.tracker", mend=f"{known}; or module:function of your own"
        )
    module, _, attribute = target.partition(":")
    try:
        found: object = getattr(import_module(module), attribute)
        return usable(found() if inspect.isclass(found) else found)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{target!r} cannot be loaded: {type(error).__name__}: {line(str(error), 200)}",
            key="telemetry.tracker",
            mend="check the module's path and its imports; PYTHONPATH is searched too",
        ) from error


def usable(found: object) -> Tracker | LogFunction:
    """`found`, if numbers can be logged to it. Raises InputError."""
    log: object = found.log if isinstance(found, Tracker) else found
    if callable(log) and not inspect.iscoroutinefunction(log):
        return cast("Tracker | LogFunction", found)
    raise InputError(
        f"a {type(found).__name__} is no tracker",
        key="telemetry.tracker",
        mend="give an object with log(numbers, step), or a plain function of (numbers, step)",
    )


class TrackerWatcher:
    """A `Watcher` that hands numbers to one tracker."""

    def __init__(self, tracker: Tracker | LogFunction) -> None:
        self._log = tracker.log if isinstance(tracker, Tracker) else tracker
        self._told: queue.SimpleQueue[tuple[dict[str, Number], int] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True, name="strop tracker")
        self._thread.start()
        self._step = 0
        self._failure = ""

    def event(self, event: Event) -> None:
        match event:
            case RootMeasured():
                self._put({"score": event.score, "best": event.score}, 0)
            case TicketDecided():
                self._step = max(self._step, event.decision.ticket)
                self._put(_decided(event), event.decision.ticket)
            case RunFinished():
                found = _finished(event.summary)
                if found:
                    self._put(found, self._step)
            case _:
                pass

    def rollout(self, key: RolloutKey, caller: Caller) -> None:
        pass

    def call(self, seen: Seen) -> None:
        pass

    async def close(self) -> str:
        self._told.put(None)
        if not await ended(self._thread, CLOSE_S):
            return f"telemetry: the tracker took longer than {CLOSE_S:g} s to end and was left"
        return self._failure

    def _work(self) -> None:
        while (told := self._told.get()) is not None:
            if not self._failure:
                self._hand(*told)

    def _hand(self, numbers: dict[str, Number], step: int) -> None:
        try:
            self._log(numbers, step)
        except Exception as error:
            self._failure = (
                f"telemetry: the tracker failed at step {step} and was not called again: "
                f"{type(error).__name__}: {line(str(error), 200)}"
            )

    def _put(self, numbers: dict[str, Number], step: int) -> None:
        self._told.put((numbers, step))


def _decided(event: TicketDecided) -> dict[str, Number]:
    numbers: dict[str, Number] = {
        "best": event.incumbent_score,
        "kept": int(event.decision.verdict is Verdict.KEPT),
        "holdout/surprises": event.surprises,
    }
    if event.score is not None:
        numbers["score"] = event.score
    numbers |= {f"count/{verdict}": count for verdict, count in event.counts.items()}
    return numbers | {f"used/{kind}": usage.used for kind, usage in event.budget.items()}


def _finished(summary: Mapping[str, Json]) -> dict[str, Number]:
    """The vault's numbers; they are out once the run is over."""
    vault = summary.get("vault")
    found: dict[str, Number] = {}
    for name in ("root", "best"):
        row = vault.get(name) if isinstance(vault, dict) else None
        metric = row.get("metric") if isinstance(row, dict) else None
        if isinstance(metric, int | float):
            found[f"vault/{name}"] = metric
    return found
