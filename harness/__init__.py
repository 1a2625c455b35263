"""Strop: agents improve themselves overnight; only what is really sharper is kept.

Layers, from the bottom; each imports only what stands above it in this list, siblings never each other:

    0  errors records tree streams clock failpoint events limits resources untrusted version
    1  policy
    2  model box repo archive
    3  agent optimizer telemetry
    4  evaluation
    5  research
    6  report
    7  cli

One step: research/engine selects a parent, an agent proposes, repo/door judges the tree, evaluation runs it in
boxes, research/evidence/gate and research/decide rule, archive makes it durable, events tell.

The names below load on first use, so that `strop --help` does not pay for numpy and git.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from harness import version

if TYPE_CHECKING:
    from harness.agent.base import Agent as Agent
    from harness.agent.base import Ask as Ask
    from harness.agent.base import Proposal as Proposal
    from harness.errors import StropError as StropError
    from harness.optimizer.pareto import pareto_front as pareto_front
    from harness.research.run import Run as Run
    from harness.research.run import open_run as open_run
    from harness.research.run import resume_run as resume_run
    from harness.research.runs import find_run as find_run
    from harness.research.select import dgm_probabilities as dgm_probabilities
    from harness.research.select import dgm_weights as dgm_weights
    from harness.research.select import pareto_frequencies as pareto_frequencies
    from harness.research.summary import summarize as summarize

__version__ = version.VERSION

_HOME = {
    "Agent": "harness.agent.base",
    "Ask": "harness.agent.base",
    "Proposal": "harness.agent.base",
    "Run": "harness.research.run",
    "StropError": "harness.errors",
    "dgm_probabilities": "harness.research.select",
    "dgm_weights": "harness.research.select",
    "find_run": "harness.research.runs",
    "open_run": "harness.research.run",
    "pareto_frequencies": "harness.research.select",
    "pareto_front": "harness.optimizer.pareto",
    "resume_run": "harness.research.run",
    "summarize": "harness.research.summary",
}

__all__ = [
    "Agent",
    "Ask",
    "Proposal",
    "Run",
    "StropError",
    "__version__",
    "dgm_probabilities",
    "dgm_weights",
    "find_run",
    "open_run",
    "pareto_frequencies",
    "pareto_front",
    "resume_run",
    "summarize",
]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    return getattr(import_module(home), name)
