"""Examples that two splits share, exactly or nearly: what was seen says what is hidden."""

from __future__ import annotations

import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np

from harness.tree import Tree

NEAR = 0.9  # of the pieces of two texts, or one in ten numbers differing
_BANDS, _ROWS = 16, 4
_LEAST_BYTES = 24
_MOST = 20_000
_MOST_NUMBERS = 1024
_FEW = 8  # more files of a kind than this, and each file is an example
_TABLES = frozenset({"csv", "tsv", "jsonl", "ndjson", "txt", "list"})
_PIECE = re.compile(rb"[\w]+")


def near_duplicates(splits: Mapping[str, Tree]) -> tuple[list[str], list[str]]:
    """(equal, nearly equal) examples of different splits, each as one line that names both.

    An example is a row of a numpy array, a row of a table or list, or a whole file where there are many of a kind. Rows
    that are only an id say nothing and are left out. Near twins are found by MinHash (Broder 1997), 16 bands of 4, over
    the words of a text and over the places and values of an array.
    """
    seen: dict[bytes, tuple[str, str]] = {}
    bands: dict[bytes, list[tuple[str, str, frozenset[bytes]]]] = {}
    equal: list[str] = []
    near: list[str] = []
    for split, tree in splits.items():
        for name, data, pieces in islice(_examples(tree), _MOST):
            digest = hashlib.sha256(data).digest()
            other = seen.setdefault(digest, (split, name))
            if other[0] != split:
                equal.append(f"{other[0]} {other[1]} and {split} {name}")
                continue
            if len(pieces) >= 8:
                near += _twins(bands, split, name, pieces)
    return equal, near


def _twins(
    bands: dict[bytes, list[tuple[str, str, frozenset[bytes]]]], split: str, name: str, pieces: frozenset[bytes]
) -> list[str]:
    found: dict[str, None] = {}
    for key in _band_keys(pieces):
        met = bands.setdefault(key, [])
        for other_split, other_name, other in met[:50]:
            if other_split != split and len(pieces & other) >= NEAR * len(pieces | other):
                found[f"{other_split} {other_name} and {split} {name}"] = None
        met.append((split, name, pieces))
    return list(found)


def _band_keys(pieces: frozenset[bytes]) -> list[bytes]:
    hashes = np.array(
        [int.from_bytes(hashlib.blake2b(one, digest_size=8).digest(), "big") for one in pieces], np.uint64
    )
    odd = np.arange(1, 2 * _BANDS * _ROWS, 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    least = (hashes[:, None] * odd[None, :]).min(axis=0).reshape(_BANDS, _ROWS)
    return [bytes([band]) + least[band].tobytes() for band in range(_BANDS)]


def _examples(tree: Tree) -> Iterator[tuple[str, bytes, frozenset[bytes]]]:
    """(name, bytes, pieces) of every example."""
    kinds = Counter(_ending(path) for path in tree)
    for path, file in tree.items():
        rows = file.data.split(b"\n")
        if path.endswith(".npy"):
            yield from _array_rows(path, file.data)
        elif _ending(path) in _TABLES and kinds[_ending(path)] <= _FEW and _is_text(file.data) and len(rows) > 4:
            for number, row in enumerate(rows, start=1):
                if len(row.strip()) >= _LEAST_BYTES:
                    yield f"{path}:{number}", row.strip(), frozenset(_PIECE.findall(row))
        elif len(file.data) >= _LEAST_BYTES:
            yield path, file.data, frozenset(_PIECE.findall(file.data)) if _is_text(file.data) else frozenset()


def _ending(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[2].casefold()


def _array_rows(path: str, data: bytes) -> Iterator[tuple[str, bytes, frozenset[bytes]]]:
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, OSError, EOFError):
        return
    if array.ndim < 2:
        return
    for number, row in enumerate(array):
        flat = row.ravel()[:_MOST_NUMBERS]
        pieces = frozenset(b"%d:%r" % (at, value) for at, value in enumerate(flat.tolist()) if value)
        yield f"{path}[{number}]", row.tobytes(), pieces


def _is_text(data: bytes) -> bool:
    return b"\0" not in data[:4096]
