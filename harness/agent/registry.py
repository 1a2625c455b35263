"""Agents by name: built in, from the entry-point group `harness.agents`, or `module:Name` on the user's path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import cast

from harness.agent.base import Agent
from harness.errors import InputError, StropError
from harness.records import Json

GROUP = "harness.agents"
_BUILT_IN = {
    "acp": "harness.agent.command:AcpAgent",
    "chat": "harness.agent.chat:ChatAgent",
    "command": "harness.agent.command:CommandAgent",
    "python": "harness.agent.command:PythonAgent",
    "search": "harness.agent.search:SearchAgent",
    "self_edit": "harness.agent.self_edit:SelfEditAgent",
}


def make_agent(name: str, config: Mapping[str, Json]) -> Agent:
    """The agent called `name` with its own settings. Raises InputError that lists the names there are."""
    found = {point.name: point.value for point in entry_points(group=GROUP)}
    target = name if ":" in name else {**found, **_BUILT_IN}.get(name)
    if target is None:
        known = ", ".join(sorted({**found, **_BUILT_IN}))
        raise InputError(f"no agent called {name!r}", key="agent.name", mend=f"one of {known}, or module:Name")
    module, _, attribute = target.partition(":")
    try:
        factory = cast("Callable[[Mapping[str, Json]], Agent]", getattr(import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"{target!r} cannot be loaded: {error}", key="agent.name", mend="check the module path and its imports"
        ) from error
    try:
        return factory(config)
    except StropError:
        raise
    except Exception as error:  # a user's own code may raise anything
        raise InputError(
            f"{target!r} does not start: {type(error).__name__}: {error}",
            key="agent.config",
            mend="correct the agent, or its settings",
        ) from error
