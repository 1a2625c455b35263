"""Simulated evaluation: no code is run, a world makes the scores up. Every page of such a run says so.

For trying selection and guards out at no cost; nothing here says anything about real agents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, Protocol, cast

from harness.box.base import Box, BoxSpec
from harness.errors import InfraError, InputError
from harness.records import Outcome, Split
from harness.tree import Tree

LABEL = "simulation (no code is run)"


class World(Protocol):
    """What a variant would score, were it real."""

    def rollout(self, tree: Tree, split: Split, seed: int) -> Outcome:
        """The outcome of `tree` on `split`; a pure function of its arguments."""
        ...


class TaskWorld(World, Protocol):
    """A world whose splits are tasks."""

    def tasks(self, split: Split) -> list[str]: ...

    def task(self, tree: Tree, split: Split, name: str, seed: int) -> Outcome:
        """The outcome of one task."""
        ...


@dataclass(frozen=True, slots=True)
class SimulatedEvaluation:
    """An `Evaluation` that asks a world."""

    world: World

    async def rollout(self, tree: Tree, split: Split, seed: int) -> Outcome:
        """See `Evaluation`."""
        return self.world.rollout(tree, split, seed)

    def tasks(self, split: Split) -> list[str]:
        """The world's tasks, if it has any."""
        return cast("TaskWorld", self.world).tasks(split) if hasattr(self.world, "tasks") else []

    async def task(self, tree: Tree, split: Split, name: str, seed: int) -> Outcome:
        """See `TaskEvaluation`."""
        return cast("TaskWorld", self.world).task(tree, split, name, seed)


class NoBoxes:
    """The back end of runs that open no box."""

    name: Literal["docker", "embedded", "process"] = "process"
    isolated = False

    async def prepare(self) -> None:
        """Nothing to prove."""

    def open(self, spec: BoxSpec) -> AbstractAsyncContextManager[Box]:
        """Raises InfraError always."""
        raise InfraError("a simulated run opens no box")

    def enforcement(self) -> Mapping[str, str]:
        """Nothing is held, for nothing runs."""
        return {}

    async def reap(self, owners: Sequence[str]) -> int:
        """Nothing is left behind."""
        return 0


def load_world(name: str) -> World:
    """The world `module:Name`. Raises InputError."""
    module, _, attribute = name.partition(":")
    try:
        return cast("World", getattr(import_module(module), attribute)())
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"{name!r} cannot be loaded: {error}", key="eval.world", mend="name it module:Name") from error
