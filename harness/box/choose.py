"""Which back end: by name, or the strongest that this version has. Never a weaker one in silence."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Literal, cast

from harness.box.base import Boxes
from harness.errors import BoxUnavailableError

BoxName = Literal["auto", "docker", "embedded", "process"]

_BACK_ENDS = {
    "docker": "harness.box.docker:DockerBoxes",
    "embedded": "harness.box.embedded:EmbeddedBoxes",
    "process": "harness.box.process:ProcessBoxes",
}


def choose(name: BoxName) -> Boxes:
    """The back end `name`, not yet prepared. "auto" is embedded, and never process.

    Raises BoxUnavailableError for a back end that this version does not have.
    """
    module, _, attribute = _BACK_ENDS["embedded" if name == "auto" else name].partition(":")
    if find_spec(module) is None:
        raise BoxUnavailableError(
            f"{name} boxes", reason="not in this version yet", mend='use box.backend = "embedded"'
        )
    make = cast("Callable[[], Boxes]", getattr(import_module(module), attribute))
    return make()
