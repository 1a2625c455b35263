"""Optimizers by name: built in, from the entry-point group `harness.optimizers`, or `module:Name`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import cast

from harness.errors import InputError
from harness.optimizer.base import Optimizer

GROUP = "harness.optimizers"
BUILT_IN = {
    "ace": "harness.optimizer.ace:Ace",
    "ape": "harness.optimizer.ape:Ape",
    "apo": "harness.optimizer.apo:Apo",
    "bootstrap": "harness.optimizer.bootstrap:Bootstrap",
    "gepa": "harness.optimizer.gepa:Gepa",
    "mipro": "harness.optimizer.mipro:Mipro",
    "opro": "harness.optimizer.opro:Opro",
    "protegi": "harness.optimizer.protegi:Protegi",
    "textgrad": "harness.optimizer.textgrad:TextGrad",
}
HOSTED = {
    "agentlightning": "harness.optimizer.hosts.agentlightning:AgentLightning",
    "dspy": "harness.optimizer.hosts.dspy:Dspy",
    "gepa-package": "harness.optimizer.hosts.gepa:GepaPackage",
    "textgrad-package": "harness.optimizer.hosts.textgrad:TextgradPackage",
}

PREFIX = "optimizer:"
_METHODS = ("check", "start", "step", "nominees")


def optimizer_names() -> list[str]:
    """Every optimizer that can be asked for by name."""
    return sorted({*BUILT_IN, *HOSTED, *(point.name for point in entry_points(group=GROUP))})


def is_optimizer(name: str) -> bool:
    """Whether `name` is an optimizer and not an agent."""
    return name in optimizer_names() or name.startswith(PREFIX)


def make_optimizer(name: str) -> Optimizer:
    """The optimizer called `name`. Raises InputError that lists the names there are."""
    found = {point.name: point.value for point in entry_points(group=GROUP)}
    target = name if ":" in name else {**found, **HOSTED, **BUILT_IN}.get(name)
    if target is None:
        known = ", ".join(optimizer_names())
        raise InputError(f"no optimizer called {name!r}", key="agent.name", mend=f"one of {known}, or module:Name")
    module, _, attribute = target.partition(":")
    try:
        factory = cast("Callable[[], Optimizer]", getattr(import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        mend = "check the module path and its imports; its folder must be on PYTHONPATH"
        raise InputError(f"{target!r} cannot be loaded: {error}", key="agent.name", mend=mend) from error
    made = factory()
    missing = [method for method in _METHODS if not callable(getattr(made, method, None))]
    if missing:
        raise InputError(
            f"{target!r} is no optimizer: it has no {', '.join(missing)}",
            key="agent.name",
            mend="see docs/optimizers.md for what an optimizer is",
        )
    return made
