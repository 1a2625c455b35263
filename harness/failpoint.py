"""Named places where a test may pull the plug. Costs one dictionary look-up when not armed.

`STROP_FAILPOINT=name:n` makes the n-th passage of `name` in this process end it with SIGKILL.
"""

from __future__ import annotations

import os
import signal

_armed, _, _nth = os.environ.get("STROP_FAILPOINT", "").partition(":")
_passed: dict[str, int] = {}


def failpoint(name: str) -> None:
    """Die here, as by `kill -9`, if the environment asks for it."""
    if name != _armed:
        return
    _passed[name] = _passed.get(name, 0) + 1
    if _passed[name] == int(_nth or "1"):
        os.kill(os.getpid(), signal.SIGKILL)
