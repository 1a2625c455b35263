"""Examples that two splits share, exactly or nearly: what was seen says what is hidden."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice, pairwise
from statistics import median

import numpy as np
from numpy.typing import NDArray

from harness.research.preflight.tables import (
    FEW,
    LINES,
    MOST_ROWS,
    Table,
    ending,
    id_columns,
    number,
    numbered,
    tables_of,
)
from harness.tree import Tree

NEAR = 0.9  # of the pieces of two texts, or one in ten numbers differing
_BANDS, _ROWS = 16, 4
_LEAST_BYTES = 24
_SHORT = 10  # texts of fewer words are compared with the order of their words
_COMMON, _MANY = 0.5, 20  # words that more than half of at least twenty examples have are the form, not the content
_CHANCE = 0.25  # equal rows are nothing odd where they are this often, in proportion, as inside one split
_MOST_NEAR = 4000  # rows a table whose distances are measured
_FALSE = 0.01  # expected number of pairs of rows called near that are not
_DIMENSIONS = 4
_EXACT = 1e-9
_MOST_PIECES = 1_000_000  # a table
_PIECE = re.compile(r"\d+(?:\.\d+)?|\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Likeness:
    """What was found; every line names two examples. `by_chance` are equal, but no more often than inside a split.

    `rows` is how many examples were compared; `unread` says what was not, and why.
    """

    equal: list[str] = field(default_factory=list[str])
    by_chance: list[str] = field(default_factory=list[str])
    near: list[str] = field(default_factory=list[str])
    rows: int = 0
    unread: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class _Example:
    split: str
    group: str
    name: str
    content: bytes
    pieces: frozenset[str]

    def beside(self, other: _Example) -> str:
        return f"{other.split} {other.name} and {self.split} {self.name}"


@dataclass(frozen=True, slots=True)
class _Points:
    """The numbers of a table, (rows, columns), and what else each row says."""

    split: str
    path: str
    at: Sequence[str]
    values: NDArray[np.float64]
    words: Sequence[str]


def near_duplicates(splits: Mapping[str, Tree], ids: frozenset[str] = frozenset()) -> Likeness:
    """Compare the examples of every two splits, without the columns that only name them: labels use the names `ids`.

    An example is a row of an array, a table, a list or a JSON file, or a whole file where there are many of a kind;
    other files are compared whole. Near twins are found by MinHash (Broder 1997), 16 bands of 4, over the words that
    not every example has, or over the places and values of an array; rows with numbers also by their distance, which
    must be so small that a hundredth of a pair is expected as near by chance.
    """
    found = Likeness()
    unread: dict[str, None] = {}
    examples: list[_Example] = []
    points: list[_Points] = []
    tables = {split: list(tables_of(tree)) for split, tree in splits.items()}
    names = _id_columns(tables, ids)
    for split, tree in splits.items():
        for table in tables[split]:
            if table.beyond:
                unread[f"{table.beyond} rows of {split} {table.path}"] = None
            read, numeric = _read(split, table, names[split, table.path], unread)
            examples += read
            points += numeric
        examples += islice(_files(split, tree, {table.path for table in tables[split]}, unread), MOST_ROWS)
    silent = _equal(examples, found, unread)
    for one, other in combinations(points, 2):
        _nearest(one, other, points, found, unread)
    rows = sum(one.group not in silent for one in examples)
    named = {*found.equal, *found.by_chance}
    near = [line for line in _twins(_without_form(examples)) if line not in named]
    found.near[:] = dict.fromkeys([*found.near, *near])
    found.unread.extend(unread)
    return Likeness(found.equal, found.by_chance, found.near, rows, found.unread)


def _id_columns(tables: Mapping[str, Sequence[Table]], ids: frozenset[str]) -> dict[tuple[str, str], frozenset[str]]:
    """Columns that are ids in every split that has the table."""
    by_path: dict[str, list[frozenset[str]]] = defaultdict(list)
    for held in tables.values():
        for table in held:
            by_path[table.path].append(id_columns(table, ids))
    same = {
        path: frozenset(name for name in found[0] if all(name in one for one in found))
        for path, found in by_path.items()
    }
    return {(split, table.path): same[table.path] for split, held in tables.items() for table in held}


def _read(
    split: str, table: Table, names: frozenset[str], unread: dict[str, None]
) -> tuple[list[_Example], list[_Points]]:
    if table.array is not None:
        return _read_array(split, table, table.array, unread)
    content = {name: column for name, column in table.cells.items() if name not in names}
    if all(numbered(column) for column in (content or table.cells).values()):
        unread[f"{table.path} holds ids only"] = None
        return [], []
    content = content or dict(table.cells)
    prose = ending(table.path) in LINES and median(_sizes(content)) >= _LEAST_BYTES
    values = {name: [number(cell) for cell in column] for name, column in content.items()}
    numeric = [name for name, column in values.items() if sum(one is not None for one in column) > NEAR * len(column)]
    worded = [name for name in content if name not in numeric]
    rows: list[_Example] = []
    words: list[str] = []
    left = _MOST_PIECES
    for place, (at, size) in enumerate(zip(table.at, _sizes(content), strict=True)):
        if prose and size < _LEAST_BYTES:
            unread[f"short lines of {table.path}"] = None
            continue
        said = [" ".join(content[name][place].split()) for name in worded]
        numbers = [(name, values[name][place]) for name in numeric]
        words.append("\x1f".join(said))
        pieces = [piece for one in said for piece in _PIECE.findall(one.casefold())]
        pieces += [*_pairs(pieces), *(f"{name}\x1f{one}" for name, one in numbers if one is not None)]
        told = [*said, *(content[name][place] if one is None else repr(one) for name, one in numbers)]
        left -= len(pieces)
        shown = frozenset(pieces) if worded and left > 0 else frozenset[str]()
        rows.append(_Example(split, table.path, at, "\x1f".join(told).encode(), shown))
    if worded and left <= 0:
        unread[f"near twins of later rows of {split} {table.path}"] = None
    if not numeric or prose:
        return rows, []
    array = np.array([[np.nan if one is None else one for one in values[name]] for name in numeric], np.float64).T
    return rows, [_Points(split, table.path, table.at, np.nan_to_num(array), words)]


def _sizes(content: Mapping[str, Sequence[str]]) -> list[int]:
    return [sum(map(len, cells)) for cells in zip(*content.values(), strict=True)]


def _read_array(
    split: str, table: Table, array: NDArray[np.float64], unread: dict[str, None]
) -> tuple[list[_Example], list[_Points]]:
    if array.shape[1] == 1 and numbered([f"{value:.0f}" if value.is_integer() else "" for value in array[:, 0]]):
        unread[f"{table.path} holds ids only"] = None
        return [], []
    rows: list[_Example] = []
    most = _MOST_PIECES // array.shape[1]
    if len(array) > most:
        unread[f"near twins of later rows of {split} {table.path}"] = None
    for count, (at, row) in enumerate(zip(table.at, array, strict=True)):
        told = enumerate(row.tolist() if count < most else [])
        pieces = frozenset(f"{place}:{value!r}" for place, value in told if value)
        rows.append(_Example(split, table.path, at, row.tobytes(), pieces if len(pieces) >= 8 else frozenset()))
    return rows, [_Points(split, table.path, table.at, array, [""] * len(array))]


def _files(split: str, tree: Tree, read: set[str], unread: dict[str, None]) -> Iterator[_Example]:
    kinds = Counter(ending(path) for path in tree)
    for path, file in tree.items():
        if path in read or any(one.startswith(f"{path}:") for one in read):
            continue
        many = kinds[ending(path)] > FEW
        if not many and len(file.data) < _LEAST_BYTES:
            unread[f"{path} is short"] = None
            continue
        text = b"\0" not in file.data[:4096]
        if not text and not many:
            unread[f"{path} was compared only as a whole"] = None
        pieces = _PIECE.findall(file.data.decode("utf-8", "replace").casefold()) if text else []
        group = f"*.{ending(path)}" if many else path
        yield _Example(split, group, path, file.data.strip(), frozenset([*pieces, *_pairs(pieces)]))


def _pairs(pieces: Sequence[str]) -> list[str]:
    return [f"{first} {second}" for first, second in pairwise(pieces)]


def _equal(examples: Sequence[_Example], found: Likeness, unread: dict[str, None]) -> set[str]:
    """Note equal examples; return the groups that cannot tell, as most of their examples are equal inside a split."""
    held: dict[bytes, list[_Example]] = defaultdict(list)
    inside: dict[tuple[str, str], Counter[bytes]] = defaultdict(Counter)
    for one in examples:
        held[hashlib.sha256(one.content).digest()].append(one)
        inside[one.group, one.split][one.content] += 1
    across: dict[tuple[str, str], list[str]] = defaultdict(list)
    for same in held.values():
        first: dict[str, _Example] = {}
        for one in same:
            others = [other for split, other in first.items() if split != one.split]
            if others:
                across[one.group, others[0].group].append(one.beside(others[0]))
            first.setdefault(one.split, one)
    silent: set[str] = set()
    for groups, lines in across.items():
        usual = max(_repeated(counts) for (group, _), counts in inside.items() if group in groups)
        total = sum(counts.total() for (group, _), counts in inside.items() if group == groups[0])
        if usual >= _COMMON:
            silent.update(groups)
            unread[f"rows of {groups[0]} are mostly equal inside one split"] = None
        else:
            (found.by_chance if usual >= _CHANCE * len(lines) / total else found.equal).extend(lines)
    return silent


def _repeated(counts: Counter[bytes]) -> float:
    """The share of examples that one before them in the same split equals."""
    return (counts.total() - len(counts)) / counts.total()


def _nearest(one: _Points, other: _Points, every: Sequence[_Points], found: Likeness, unread: dict[str, None]) -> None:
    """Rows of two tables that lie nearer than chance brings any: the same row, moved a little, or with columns more."""
    paths = {path for path in (one.path, other.path) if one.path != other.path}
    if one.split == other.split or any(p.path in paths and q.path in paths for p, q in _twice(every)):
        return
    for points in (one, other):
        if len(points.values) > _MOST_NEAR:
            unread[f"distances of {len(points.values) - _MOST_NEAR} rows of {points.split} {points.path}"] = None
    width = min(one.values.shape[1], other.values.shape[1])
    a, b = one.values[:_MOST_NEAR, :width], other.values[:_MOST_NEAR, :width]
    scale = np.concatenate([a, b]).std(axis=0)
    if not len(a) or not len(b) or not (scale > 0).any():
        return
    a, b = a[:, scale > 0] / scale[scale > 0], b[:, scale > 0] / scale[scale > 0]
    usual = float(np.median(np.sqrt(_least(a, a, own=True)[0])))
    free = sum(len(set(column)) > len(a) / 4 for column in a.T.tolist())  # those of few values tell little apart
    reach = usual * (_FALSE / (len(b) * np.log(2))) ** (1 / min(_DIMENSIONS, free)) if free else 0.0
    if reach <= _EXACT:
        return
    apart, nearest = _least(b, a)
    pairs = [
        (int(place), float(np.abs(a[nearest[place]] - b[place]).max()))
        for place in np.flatnonzero(np.sqrt(apart) < reach)
        if one.words[int(nearest[place])] == other.words[int(place)]
    ]
    inside = max(float((np.sqrt(_least(x, x, own=True)[0]) < reach).mean()) for x in (a, b))
    if inside >= _CHANCE * len(pairs) / len(b):
        return
    known = {*found.equal, *found.by_chance}
    for place, most in pairs:
        line = f"{one.split} {one.at[int(nearest[place])]} and {other.split} {other.at[place]}"
        if most > _EXACT:
            found.near.append(line)
        elif one.values.shape[1] != other.values.shape[1] and line not in known:
            found.equal.append(line)


def _twice(every: Sequence[_Points]) -> Iterator[tuple[_Points, _Points]]:
    """Tables of two splits that have one path: those have their match, and need no other."""
    return ((p, q) for p, q in combinations(every, 2) if p.path == q.path and p.split != q.split)


def _least(
    rows: NDArray[np.float64], others: NDArray[np.float64], *, own: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """For each of `rows` the least squared distance to `others`, and which it is; with `own` not to itself."""
    apart, nearest = np.empty(len(rows)), np.empty(len(rows), np.intp)
    square = (others**2).sum(axis=1)
    for start in range(0, len(rows), 512):
        part = rows[start : start + 512]
        far = (part**2).sum(axis=1)[:, None] + square[None, :] - 2 * part @ others.T
        if own:
            far[np.arange(len(part)), np.arange(start, start + len(part))] = np.inf
        nearest[start : start + 512] = far.argmin(axis=1)
        apart[start : start + 512] = ((part - others[nearest[start : start + 512]]) ** 2).sum(axis=1)
    return apart, nearest


def _without_form(examples: Sequence[_Example]) -> Iterator[tuple[_Example, frozenset[str]]]:
    """Examples with the pieces that only few share: what every question begins with says nothing of this one.

    Of few words the order counts too: `9 - 1` is not `1 - 9`.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    sizes = Counter(one.group for one in examples)
    for one in examples:
        counts[one.group].update(one.pieces)
    form = {
        group: frozenset(piece for piece, count in held.items() if count > _COMMON * sizes[group])
        for group, held in counts.items()
        if sizes[group] >= _MANY
    }
    for one in examples:
        content = one.pieces - form.get(one.group, frozenset())
        words = frozenset(piece for piece in content if " " not in piece)
        yield one, content if len(words) < _SHORT else words


def _twins(examples: Iterator[tuple[_Example, frozenset[str]]]) -> list[str]:
    found: dict[str, None] = {}
    bands: dict[bytes, list[tuple[_Example, frozenset[str]]]] = defaultdict(list)
    for one, pieces in examples:
        for key in _band_keys(pieces) if pieces else ():
            met = bands[key]
            for other, others in met[:50]:
                alike = len(pieces & others) >= NEAR * len(pieces | others)
                if alike and other.split != one.split and other.content != one.content:
                    found[one.beside(other)] = None
            met.append((one, pieces))
    return list(found)


def _band_keys(pieces: frozenset[str]) -> list[bytes]:
    hashes = np.array(
        [int.from_bytes(hashlib.blake2b(one.encode(), digest_size=8).digest(), "big") for one in pieces], np.uint64
    )
    odd = np.arange(1, 2 * _BANDS * _ROWS, 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    least = (hashes[:, None] * odd[None, :]).min(axis=0).reshape(_BANDS, _ROWS)
    return [bytes([band]) + least[band].tobytes() for band in range(_BANDS)]
