"""Named random streams. No global randomness anywhere: a stream is a pure function of (seed, name, numbers)."""

from __future__ import annotations

import hashlib

import numpy as np


def derive(seed: int, name: str, *numbers: int | str) -> int:
    """A 63-bit integer from the run's seed and a name; independent for every different argument."""
    text = "\x1f".join([str(seed), name, *map(str, numbers)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def stream(seed: int, name: str, *numbers: int | str) -> np.random.Generator:
    """A fresh numpy generator for one named purpose; the same arguments always give the same draws."""
    return np.random.Generator(np.random.PCG64(derive(seed, name, *numbers)))
