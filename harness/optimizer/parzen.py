"""The next combination to try: optuna's multivariate tree-structured Parzen estimator, rebuilt from the record.

Nothing lives between calls: a study is made from the recorded trials each time, so a resumed search asks the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Literal

import numpy as np

from harness.errors import MissingEnvironmentError


def optuna() -> ModuleType:
    """optuna itself, which is an extra and slow to load. Raises MissingEnvironmentError."""
    try:
        package = import_module("optuna")
    except ImportError as error:
        raise MissingEnvironmentError(
            "optuna", reason="is not installed", mend="pip install 'strop[optimizers]', or set sampler = \"random\""
        ) from error
    package.logging.set_verbosity(package.logging.WARNING)
    return package


def suggest(
    sizes: Mapping[str, int],
    trials: Sequence[Mapping[str, Any]],
    rng: np.random.Generator,
    how: Literal["tpe", "random"],
) -> dict[str, int]:
    """One index a variable. `trials` are {choice, value}; a value of None (failed) counts as the worst seen.

    Raises MissingEnvironmentError for `tpe` without optuna.
    """
    names = sorted(sizes)
    if how == "random":
        return {name: int(rng.integers(sizes[name])) for name in names}
    package = optuna()
    space: dict[str, Any] = {
        name: package.distributions.CategoricalDistribution(tuple(range(sizes[name]))) for name in names
    }
    values = [float(trial["value"]) for trial in trials if trial["value"] is not None]
    worst = min(values, default=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = package.samplers.TPESampler(seed=int(rng.integers(2**31)), multivariate=True, n_startup_trials=10)
        study = package.create_study(direction="maximize", sampler=sampler)
        for trial in trials:
            study.add_trial(
                package.trial.create_trial(
                    params=dict(trial["choice"]),
                    distributions=space,
                    value=worst if trial["value"] is None else float(trial["value"]),
                )
            )
        asked = study.ask(space)
    return {name: int(asked.params[name]) for name in names}
