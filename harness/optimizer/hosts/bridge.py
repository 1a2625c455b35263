"""From a worker thread to the host and back: a blocking library asks, the event loop does, the budget is the run's.

A hosted library keeps its state in its own objects, so a crash starts it anew; since rollouts and completions are
served again under their keys, what it did before costs nothing the second time. For that its tags must come in the same
order, which holds for a library that is given a seed and runs in one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread

from harness.errors import AgentError, BudgetError, StropError
from harness.optimizer import wording
from harness.optimizer.admit import fingerprint
from harness.optimizer.base import Example, Host, Refusal, Request, Result, Role, Texts
from harness.optimizer.pool import Pool

T = TypeVar("T")
_LONGEST_S = 7 * 24 * 3600.0


@dataclass
class Bridge:
    """What a library in a worker thread may do. `over` is why it must stop, once that is so; `fault` is the error
    behind it, if it ends more than this library.

    `pool` holds every candidate it ran and what that scored: the nominees do not depend on the library's own account.
    """

    host: Host
    name: str
    pool: Pool
    over: str = ""
    fault: StropError | None = None
    _numbers: dict[str, int] = field(default_factory=dict[str, int])
    _asked: int = 0

    @classmethod
    def of(cls, host: Host, name: str, seed: Texts) -> Bridge:
        """A bridge whose pool holds the seed."""
        made = cls(host, name, Pool(floor=host.floor))
        made.number(seed)
        return made

    def number(self, texts: Mapping[str, str]) -> int:
        """The pool's number of a candidate."""
        name = fingerprint(texts)
        if name not in self._numbers:
            self._numbers[name] = self.pool.add(texts)
        return self._numbers[name]

    def evaluate(self, texts: Mapping[str, str], examples: Sequence[Example]) -> list[Result]:
        """Run a candidate; a text that would not be admitted fails on every example instead of being run.

        Raises BudgetError, also for everything asked after the first refusal.
        """
        self._check()
        if self._refused(texts):
            return []
        self._asked += 1
        call = partial(self.host.evaluate, dict(texts), list(examples), f"{self.name}/{self._asked}")
        results = self._ask(call)
        self.pool.record(self.number(texts), results)
        return results

    def complete(self, prompt: str, purpose: str = "reflect") -> str:
        """The proposing model's reply to a library's own prompt; empty when there is none."""
        self._check()
        self._asked += 1
        request = Request(purpose, (("prompt", prompt),), "Answer the prompt.", f"{self.name}/{self._asked}")
        return self._ask(partial(self.host.complete, Role.PROPOSES, request)).text or ""

    def nominees(self) -> tuple[Texts, ...]:
        """What was scored, best first."""
        scored = [k for k in self.pool.order() if self.pool.count(k)] or [0]
        return tuple(self.pool.texts(k) for k in scored)

    def worst(self) -> float:
        """The score a failure is told as, to a library that has no word for it."""
        return 0.0 if self.host.floor is None else self.host.floor

    def _refused(self, texts: Mapping[str, str]) -> bool:
        seed = {slot.name: slot.text for slot in self.host.slots}
        if dict(texts) == seed:
            return False
        return isinstance(self.host.admit(seed, dict(texts), []), Refusal)

    def _ask(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Let the event loop do it. A library may swallow what goes wrong: it is kept, and nothing is done after it."""
        try:
            return anyio.from_thread.run(call)
        except StropError as error:
            self.over = error.message
            self.fault = None if isinstance(error, BudgetError) else error
            raise

    def _check(self) -> None:
        if self.over:
            raise BudgetError(self.over, limit=0, used=0, asked=1)


async def in_thread(bridge: Bridge, work: Callable[[], T]) -> T | None:
    """Run a library to its end, None when the budget ended it. Other errors of its own become AgentError.

    On cancellation the library is abandoned: its next question is refused.
    """
    limiter = anyio.CapacityLimiter(1)
    try:
        with anyio.fail_after(_LONGEST_S):
            done = await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)
    except Exception as error:
        if bridge.fault is not None:
            raise bridge.fault from None
        if bridge.over:
            return None
        if isinstance(error, StropError):
            raise
        raise AgentError(f"{bridge.name} failed: {error!r}") from error
    finally:
        bridge.over = bridge.over or "the run went on without it"
    if bridge.fault is not None:
        raise bridge.fault
    return done


def told(results: Sequence[Result]) -> str:
    """Feedback lines for a library's own prompts."""
    return wording.feedback(results)
