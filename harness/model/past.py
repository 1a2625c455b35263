"""What a run's journal already holds, looked up by what a caller asks for again."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable

from harness.model.base import Caller
from harness.records import ModelCall, Spend


class Past:
    """Recorded replies, each given out once, in the order they were first asked for.

    A call that a crash cut off has no reply: it is made again under its own number.
    """

    def __init__(self, calls: Iterable[ModelCall]) -> None:
        self._known: dict[tuple[int, str, str, str], deque[ModelCall]] = defaultdict(deque)
        self._next: dict[tuple[int, str], int] = defaultdict(int)
        for call in sorted(calls, key=lambda call: call.call):
            self._known[call.ticket, call.role, call.variant, call.digest].append(call)
            self._next[call.ticket, call.role] = max(self._next[call.ticket, call.role], call.call + 1)

    def take(self, caller: Caller, digest: str) -> ModelCall | None:
        """The next recorded call that is the same request, or None. Its reply is None when it was cut off."""
        found = self._known.get((caller.ticket, caller.role, caller.variant, digest))
        return found.popleft() if found else None

    def tell_again(self, caller: Caller, calls: Iterable[ModelCall]) -> None:
        """Give out what `caller` was told, of all `calls` that were made, from the first on."""
        ours = [call for call in calls if (call.ticket, call.role, call.variant) == _who(caller)]
        for key in [key for key in self._known if key[:3] == _who(caller)]:
            del self._known[key]
        for call in sorted(ours, key=lambda call: call.call):
            self._known[(*_who(caller), call.digest)].append(call)

    def number(self, caller: Caller) -> int:
        """A new number for a call that is not in the journal."""
        number = self._next[caller.ticket, caller.role]
        self._next[caller.ticket, caller.role] = number + 1
        return number


def _who(caller: Caller) -> tuple[int, str, str]:
    return caller.ticket, caller.role, caller.variant


def unsettled(call: ModelCall) -> ModelCall:
    """A call that a crash cut off, with what was held for it counted as taken, ready to be tried again."""
    return ModelCall(
        ticket=call.ticket,
        role=call.role,
        call=call.call,
        digest=call.digest,
        model=call.model,
        dialect=call.dialect,
        variant=call.variant,
        held=Spend(),
        spent=call.spent + call.held,
        reply=None,
    )
