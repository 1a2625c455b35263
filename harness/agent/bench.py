"""What a run lays out for an agent that needs more than the ask: model calls, and boxes of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from harness.box.base import Boxes, BoxSpec
from harness.model.server import Server
from harness.policy.schema import SubjectFile
from harness.tree import Tree


@dataclass(frozen=True, slots=True)
class Bench:
    """`server` is the run's gateway, None when its policy names no models; `spec` is how the run's boxes are opened.

    `file` is the subject's own; `fixed` is set when one tree, the root's, is to do all editing.
    """

    boxes: Boxes
    spec: BoxSpec
    server: Server | None = None
    file: SubjectFile | None = None
    fixed: Tree | None = None


@runtime_checkable
class Equipped(Protocol):
    """An agent that wants a bench: it is called once, before the first ask of a session."""

    def equip(self, bench: Bench) -> None: ...


@runtime_checkable
class Proves(Protocol):
    """An agent that can be tried before a night, on a bench without a model. Raises InputError for what is missing."""

    async def prove(self, bench: Bench) -> None: ...
