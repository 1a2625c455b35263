"""What the names of a program say about its literals."""

from __future__ import annotations

import re


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# changing one of these changes the luck, the cost or the form of a run, not how good it is
_FIXED_PARTS = _set("seed seeds version limit limits budget timeout deadline cost port device verbose debug")
_FIXED_NAMES = _set(
    """
    random_state axis axes ndim ndmin dtype keepdims encoding errors indent workers num_workers threads rank skiprows
    usecols delimiter allow_pickle id ids index idx exit_code code exist_ok parents text inplace requires_grad errno
    nargs help maxsize copy strict flush daemon shell check capture_output dim dims out path end start
    """
)
FIXED_CALLS = _set(
    """
    print range len isinstance exit open reshape transpose permute view squeeze unsqueeze expand_dims round format
    join split strip replace getLogger basicConfig warn filterwarnings exec eval getattr setattr hasattr
    """
)
SEEDING = _set("seed default_rng Random RandomState manual_seed set_seed PRNGKey SeedSequence PCG64")
# of these, numbers between 0 and 1 mean shares of a whole: they never step past 1
_SHARES = _set(
    """
    momentum beta betas beta1 beta2 dropout drop share ratio fraction frac prob probability smoothing quantile
    percent gamma p top_p ema subsample colsample
    """
)
_TINY = _set("eps epsilon tol atol rtol tiny")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def parts(name: str) -> set[str]:
    """The lower-case words of a snake_case or CamelCase name, and the whole."""
    return {part.lower() for part in _PART.findall(name)} | {name.lower()}


def is_fixed(name: str) -> bool:
    """Whether a literal of this name is never a knob."""
    return name.startswith("__") or name.lower() in _FIXED_NAMES or not _FIXED_PARTS.isdisjoint(parts(name))


def is_share(name: str) -> bool:
    """Whether a literal of this name is a share of a whole."""
    return not _SHARES.isdisjoint(parts(name))


def is_tiny(name: str) -> bool:
    """Whether a literal of this name is a guard against division by zero or a tolerance."""
    return not _TINY.isdisjoint(parts(name))
