"""Rows of data files, whatever their format: what of a row is an id, and what it says."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from harness.tree import Tree

LEAST_ROWS = 5
MOST_ROWS = 20_000
_MOST_NUMBERS = 1024
_MOST_BYTES = 64 * 2**20
LINES = frozenset({"txt", "list"})
_CELLS = frozenset({"csv", "tsv"})
_RECORDS = frozenset({"jsonl", "ndjson", "json"})
FEW = 8  # more files of a kind than this, and each file is an example
_MAIN = ""  # the column of rows that have one
_ID_NAME = re.compile(r"(^|_)(id|ids|idx|index|key|uid|uuid|guid)$", re.IGNORECASE)
_TOKEN = re.compile(r"\S{1,64}")
_NUMBERED = re.compile(r"(?=.*[^\W\d_])(?=.*\d)[\w./:#-]{1,64}")  # 12*55 says something, item-12 does not
_UNIQUE = re.compile(r"[0-9a-fA-F-]{16,64}")
_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one file. `cells` has a list a column, all equally long; arrays have `array` (rows, numbers) instead.

    `at` says where a row lies, for people. `beyond` rows were not read.
    """

    path: str
    cells: Mapping[str, list[str]]
    at: list[str]
    array: NDArray[np.float64] | None = None
    beyond: int = 0

    def __len__(self) -> int:
        return len(self.at)


def tables_of(tree: Tree) -> Iterator[Table]:
    """Every file of `tree` that holds rows. A file among many of its kind is one example, and no table."""
    kinds = Counter(ending(path) for path in tree)
    for path, file in tree.items():
        kind = ending(path)
        if len(file.data) > _MOST_BYTES or (kinds[kind] > FEW and kind not in ("npy", "npz")):
            continue
        if kind in ("npy", "npz"):
            yield from _arrays(path, file.data)
        elif kind in _CELLS | LINES | _RECORDS and b"\0" not in file.data[:4096]:
            table = _table(path, kind, file.data.decode("utf-8", "replace"))
            if table is not None and len(table) >= (LEAST_ROWS if kind in LINES else 1):
                yield table


def ending(path: str) -> str:
    """What follows the last dot of the name, in small letters."""
    return path.rpartition("/")[2].rpartition(".")[2].casefold()


def number(text: str) -> float | None:
    """The finite number that `text` is."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def id_columns(table: Table, ids: frozenset[str]) -> frozenset[str]:
    """Columns that only name a row: those that match the `ids` of labels, and those that count or number rows."""
    found = {name for name, column in table.cells.items() if _matches(column, ids)}
    for place, (name, column) in enumerate(table.cells.items()):
        if len(set(column)) == len(column) and (_ID_NAME.search(name) or (place == 0 and numbered(column))):
            found.add(name)
    return frozenset(found)


def numbered(column: Sequence[str]) -> bool:
    """Whether it counts rows or gives them numbers: `0, 1, 2`, `r0001`, `visible-17`, digests."""
    if len(set(column)) < len(column):
        return False
    if all(_UNIQUE.fullmatch(cell) and not cell.isdecimal() for cell in column):
        return True
    if all(cell.isdecimal() for cell in column):
        values = [int(cell) for cell in column]
        return values == list(range(values[0], values[0] + len(values)))
    named = all(_NUMBERED.fullmatch(cell) and number(cell) is None for cell in column)
    return named and len({re.sub(r"\d+", "0", cell) for cell in column}) <= max(1, len(column) // 4)


def ids_of(labels: Tree) -> frozenset[str]:
    """The names that labels give to examples."""
    found: set[str] = set()
    for table in tables_of(labels):
        if name := key_column(table):
            found.update(table.cells[name])
    return frozenset(found)


def key_column(table: Table) -> str | None:
    """The column that names each row: no two of its cells are equal, and all are single words."""
    unique = {
        name: column
        for name, column in table.cells.items()
        if len(set(column)) == len(column) and all(map(_TOKEN.fullmatch, column)) and len(table.cells) > 1
    }
    named = [name for name in unique if _ID_NAME.search(name)]
    worded = [name for name, column in unique.items() if any(number(cell) is None for cell in column)]
    return next(iter([*named, *worded, *unique]), None)


def _matches(column: Sequence[str], ids: frozenset[str]) -> bool:
    return bool(ids) and sum(cell in ids for cell in column) >= _SHARE * len(column)


def _table(path: str, kind: str, text: str) -> Table | None:
    lines = text.splitlines()
    if kind == "json":
        return _from_json(path, text)
    if kind in _RECORDS:
        return _records(path, [(f"{path}:{at}", _loads(line)) for at, line in enumerate(lines, 1) if line.strip()])
    if kind in LINES and not _is_grid(lines):
        kept = [(f"{path}:{at}", line.strip()) for at, line in enumerate(lines, 1) if line.strip()]
        return _of_rows(path, {}, [[line] for _, line in kept], [at for at, _ in kept])
    split = "\t" if kind == "tsv" or (kind in LINES and "\t" in text) else ","
    if kind == "csv" and text.partition("\n")[0].count(";") > text.partition("\n")[0].count(","):
        split = ";"
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text), delimiter=split)]
    except csv.Error:
        rows = [[line.strip()] for line in lines]
    at = [f"{path}:{place}" for place, row in enumerate(rows, 1) if any(row)]
    rows = [row for row in rows if any(row)]
    head = rows[0] if _has_head(rows) else []
    return _of_rows(path, dict(enumerate(head)), rows[bool(head) :], at[bool(head) :])


def _is_grid(lines: Sequence[str]) -> bool:
    """Lines of a plain text that are rows of cells: all have the same number of tabs or commas, and a number."""
    kept = [line for line in lines if line.strip()]
    for split in "\t,":
        counts = {line.count(split) for line in kept}
        if len(counts) == 1 and counts != {0} and any(number(cell) is not None for cell in kept[0].split(split)):
            return True
    return False


def _has_head(rows: Sequence[Sequence[str]]) -> bool:
    if len(rows) < 2 or any(number(cell) is not None or not cell for cell in rows[0]):
        return False
    head, rest = rows[0], rows[1:]
    if len(set(head)) < len(head) or list(head) in [list(row) for row in rest]:
        return False
    columns = [[row[place] if place < len(row) else "" for row in rest] for place in range(len(head))]
    numeric = any(all(number(cell) is not None for cell in column) for column in columns)
    return numeric or bool(_ID_NAME.search(head[0]))


def _of_rows(path: str, head: Mapping[int, str], rows: Sequence[Sequence[str]], at: list[str]) -> Table:
    width = max((len(row) for row in rows), default=0)
    kept = rows[:MOST_ROWS]
    cells = {
        head.get(place, f"{place + 1}"): [row[place] if place < len(row) else "" for row in kept]
        for place in range(width)
    }
    return Table(path, cells, at[:MOST_ROWS], beyond=max(0, len(rows) - MOST_ROWS))


def _from_json(path: str, text: str) -> Table | None:
    value = _loads(text)
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        if len(named) < LEAST_ROWS:
            inner = [cast("object", one) for one in named.values() if isinstance(one, list | dict)]
            return _from_json(path, json.dumps(inner[0])) if len(inner) == 1 else None
        records = [
            {"key": key, **(cast("dict[str, Any]", one) if isinstance(one, dict) else {_MAIN: one})}
            for key, one in named.items()
        ]
        return _records(path, [(f"{path}[{key!r}]", one) for key, one in zip(named, records, strict=True)])
    if isinstance(value, list):
        return _records(path, [(f"{path}[{at}]", one) for at, one in enumerate(cast("list[Any]", value))])
    return None


def _records(path: str, found: Sequence[tuple[str, object]]) -> Table:
    kept = found[:MOST_ROWS]
    records: list[dict[str, Any]] = []
    for _, one in kept:
        if isinstance(one, list):
            records.append({f"{place + 1}": cell for place, cell in enumerate(cast("list[Any]", one))})
        else:
            records.append(cast("dict[str, Any]", one) if isinstance(one, dict) else {_MAIN: one})
    names = dict.fromkeys(name for one in records for name in one)
    cells = {name: [as_text(one.get(name, "")) for one in records] for name in names}
    return Table(path, cells, [at for at, _ in kept], beyond=len(found) - len(kept))


def as_text(value: object) -> str:
    """A JSON value as one cell; numbers and words are what they would be in a table."""
    return value.strip() if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _loads(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()


def _arrays(path: str, data: bytes) -> Iterator[Table]:
    try:
        loaded = np.load(io.BytesIO(data), allow_pickle=False)
        held = {f"{path}:{name}": loaded[name] for name in loaded.files} if path.endswith(".npz") else {path: loaded}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile):
        return
    for name, array in held.items():
        if array.ndim == 0 or not len(array):
            continue
        rows = array[:MOST_ROWS].reshape(min(len(array), MOST_ROWS), -1)[:, :_MOST_NUMBERS]
        at = [f"{name}[{place}]" for place in range(len(rows))]
        beyond = len(array) - len(rows)
        if array.dtype.kind in "US":
            columns = {f"{place + 1}": [str(cell) for cell in rows[:, place]] for place in range(rows.shape[1])}
            yield Table(name, columns, at, beyond=beyond)
        elif array.dtype.kind in "biuf":
            yield Table(name, {}, at, np.nan_to_num(rows.astype(np.float64)), beyond)
