"""Which back end: by name, or the strongest that this version has. Never a weaker one in silence."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Literal, cast

from harness.box import endpoint
from harness.box.base import Boxes
from harness.errors import MissingEnvironmentError

BoxName = Literal["auto", "docker", "embedded", "process"]

_BACK_ENDS = {
    "embedded": "harness.box.embedded:EmbeddedBoxes",
    "process": "harness.box.process:ProcessBoxes",
}


def choose(name: BoxName, image: str | None = None) -> Boxes:
    """The back end `name`, not yet prepared. "auto" is docker where an engine answers and has `image` (by default the
    one that `strop image` makes), else embedded; never process.

    May block for a second or two where a docker socket is. Raises BoxUnavailableError.
    """
    if name == "auto":
        name = "docker" if _has_docker(image) else "embedded"
    if name == "docker":
        docker = import_module("harness.box.docker")
        return cast("Boxes", docker.DockerBoxes(image or docker.IMAGE))
    module, _, attribute = _BACK_ENDS[name].partition(":")
    make = cast("Callable[[], Boxes]", getattr(import_module(module), attribute))
    return make()


def _has_docker(image: str | None) -> bool:
    """Whether docker would work; the client is not even imported where no engine can be."""
    try:
        if not endpoint.endpoints():
            return False
    except MissingEnvironmentError:
        return False
    docker = import_module("harness.box.docker")
    return bool(docker.available(image or docker.IMAGE))
