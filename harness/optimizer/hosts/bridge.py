"""From a worker thread to the host and back: a blocking library asks, the event loop does, the budget is the run's.

A hosted library keeps its state in its own objects, so a crash starts it anew; since rollouts and completions are
served again under their keys, what it did before costs nothing the second time. For that its tags must be the same
again: `evaluate` and `complete` count, which holds for a library with a seed and one thread; `run`, `run_own` and
`chat` count apart for each thing asked, so that a library may use threads of its own.
"""

from __future__ import annotations

import contextvars
import hashlib
import os
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread
from anyio.from_thread import BlockingPortal

from harness.errors import AgentError, BudgetError, InputError, StropError
from harness.optimizer import wording
from harness.optimizer.admit import fingerprint
from harness.optimizer.base import Endpoint, Example, Host, Refusal, Request, Result, Role, Texts
from harness.optimizer.pool import Pool
from harness.records import Status
from harness.untrusted import line

T = TypeVar("T")
_LEFT = "the run went on without it"
_LONGEST_S = 7 * 24 * 3600.0


@dataclass
class Bridge:
    """What a library in a worker thread may do. `over` is why it must stop, once that is so; `fault` is the error
    behind it, if it ends more than this library; `failed` is what the library itself ended with, after some rollouts.

    `pool` holds every candidate it ran and what that scored: the nominees do not depend on the library's own account.
    """

    host: Host
    name: str
    pool: Pool
    over: str = ""
    fault: StropError | None = None
    failed: str = ""
    portal: BlockingPortal | None = None
    _numbers: dict[str, int] = field(default_factory=dict[str, int])
    _asked: int = 0
    _times: Counter[str] = field(default_factory=Counter[str])
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _admitted: dict[str, Texts | Refusal] = field(default_factory=dict[str, "Texts | Refusal"])

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
        admitted = self.admitted(texts)
        if isinstance(admitted, Refusal):
            return []
        self._asked += 1
        call = partial(self.host.evaluate, admitted, list(examples), f"{self.name}/{self._asked}")
        results = self._ask(call)
        self.pool.record(self.number(admitted), results)
        return results

    def complete(self, prompt: str, purpose: str = "reflect") -> str:
        """The proposing model's reply to a library's own prompt; empty when there is none."""
        self._check()
        self._asked += 1
        request = Request(purpose, (("prompt", prompt),), "Answer the prompt.", f"{self.name}/{self._asked}")
        return self._ask(partial(self.host.complete, Role.PROPOSES, request)).text or ""

    def run(self, texts: Mapping[str, str], example: Example) -> Result:
        """One example, from any thread. A text that would not be admitted fails unrun. Raises BudgetError."""
        self._check()
        admitted = self.admitted(texts)
        if isinstance(admitted, Refusal):
            return Result(example.key, Status.AGENT_ERROR, None, f"the text was not admitted: {admitted.reason}")
        tag = self._tag("run", fingerprint(admitted), example.key)
        (result,) = self._ask(partial(self.host.evaluate, admitted, [example], tag))
        self._record(admitted, result)
        return result

    def run_own(self, texts: Mapping[str, str], example: Example, run: Callable[[], Result]) -> Result:
        """One example by the library's own program, `run`, with this thread's context. Raises BudgetError."""
        self._check()
        admitted = self.admitted(texts)
        if isinstance(admitted, Refusal):
            return Result(example.key, Status.AGENT_ERROR, None, f"the text was not admitted: {admitted.reason}")
        tag = self._tag("own", fingerprint(admitted), example.key)
        context = contextvars.copy_context()

        async def away() -> Result:
            return await anyio.to_thread.run_sync(context.run, run)

        result = self._ask(partial(self.host.run_own, admitted, example, tag, away))
        self._record(admitted, result)
        return result

    def chat(self, role: Role, messages: Sequence[tuple[str, str]], purpose: str, temperature: float = 1.0) -> str:
        """A role's reply to a library's own messages, from any thread; empty when there is none. Raises BudgetError."""
        self._check()
        said = tuple(messages)
        prompt = said[-1][1] if said else ""
        tag = self._tag(role.value, repr(said), repr(temperature))
        request = Request(purpose, (("prompt", prompt),), "Answer the prompt.", tag, temperature, said)
        return self._ask(partial(self.host.complete, role, request)).text or ""

    def unusable(self, role: Role, why: str) -> None:
        """See `Host`; from any thread."""
        if self.portal is not None and not self.over:
            self.portal.call(self.host.unusable, role, why)

    def endpoint(self, role: Role) -> Endpoint:
        """See `Host`."""
        return self.host.endpoint(role)

    @contextmanager
    def reachable(self, role: Role) -> Generator[None]:
        """That role's model where OpenAI clients look for one: in the environment of this process, for as long.

        Nothing where the models have no address, as in a simulation. The run's own keys were read before.
        """
        try:
            at = self.host.endpoint(role)
        except AgentError:
            yield
            return
        told = {"OPENAI_BASE_URL": at.base_url, "OPENAI_API_BASE": at.base_url, "OPENAI_API_KEY": at.api_key}
        before = {name: os.environ.get(name) for name in told}
        os.environ.update(told)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def nominees(self) -> tuple[Texts, ...]:
        """What was scored, best first."""
        scored = [k for k in self.pool.order() if self.pool.count(k)] or [0]
        return tuple(self.pool.texts(k) for k in scored)

    @property
    def spent(self) -> bool:
        """Whether the budget ended it."""
        return bool(self.over) and self.over != _LEFT

    def how(self) -> dict[str, str]:
        """What a state says of a library that failed; nothing of one that did not."""
        return {"failed": self.failed} if self.failed else {}

    def used(self) -> bool:
        """Whether anything at all was scored."""
        return any(self.pool.count(number) for number in range(len(self.pool)))

    def worst(self) -> float:
        """The score a failure is told as, to a library that has no word for it."""
        return 0.0 if self.host.floor is None else self.host.floor

    def admitted(self, texts: Mapping[str, str]) -> Texts | Refusal:
        """A candidate as it may be run, or why it may not; the seed always may."""
        seed = {slot.name: slot.text for slot in self.host.slots}
        if dict(texts) == seed:
            return seed
        with self._lock:  # asked for every example of a candidate, but judged once
            whole = repr(sorted(texts.items()))
            if whole not in self._admitted:
                self._admitted[whole] = self.host.admit(seed, dict(texts), [])
            return self._admitted[whole]

    def _record(self, texts: Mapping[str, str], result: Result) -> None:
        with self._lock:
            self.pool.record(self.number(texts), [result])

    def _tag(self, *what: str) -> str:
        """A name for this time of asking for exactly this."""
        digest = hashlib.sha256("\x1f".join(what).encode()).hexdigest()[:16]
        with self._lock:
            self._times[digest] += 1
            return f"{self.name}/{digest}/{self._times[digest]}"

    def _ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """Let the event loop do it. A library may swallow what goes wrong: it is kept, and nothing is done after it."""
        assert self.portal is not None, "a bridge is crossed inside in_thread"
        try:
            return self.portal.call(call)
        except StropError as error:
            self.over = error.message
            self.fault = None if isinstance(error, BudgetError) else error
            raise

    def _check(self) -> None:
        if self.over:
            raise BudgetError(self.over, limit=0, used=0, asked=1)


async def in_thread(bridge: Bridge, work: Callable[[], T]) -> T | None:
    """Run a library to its end, None when the budget or an error of its own ended it.

    Raises AgentError where that came before its first rollout.

    On cancellation the library is abandoned: its next question is refused.
    """
    limiter = anyio.CapacityLimiter(1)
    done: T | None = None
    try:
        async with BlockingPortal() as bridge.portal:
            with anyio.fail_after(_LONGEST_S):
                done = await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)
    except Exception as raised:
        error = _cause(raised)
        if bridge.fault is not None:
            raise bridge.fault from None
        if bridge.over:
            return None
        if isinstance(error, StropError):
            raise error from None
        said = f"{bridge.name} failed: {line(repr(error), 200)}"
        if not bridge.used():
            raise AgentError(said) from error
        bridge.failed = said  # what it had scored by then stands
        return None
    finally:
        over, bridge.over = bridge.over, bridge.over or _LEFT
    if bridge.fault is not None:
        raise bridge.fault
    if not over and not bridge.used():
        raise AgentError(f"{bridge.name} ended without a single rollout")
    return done


def _cause(error: BaseException) -> BaseException:
    """What went wrong, without the groups that the portal put around it."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def named(name: str, key: str) -> Any:
    """The object a user's `module:Name` names. Raises InputError."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"{name!r} cannot be loaded: {error}",
            key=f"agent.config.{key}",
            mend="module:Name, on PYTHONPATH",
        ) from error


def told(results: Sequence[Result]) -> str:
    """Feedback lines for a library's own prompts."""
    return wording.feedback(results)
