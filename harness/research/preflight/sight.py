"""Answers that a candidate can read in another form: a column, pairs, the names or the order of examples."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from harness.research.preflight.tables import Table, key_column, number, numbered, tables_of
from harness.tree import Tree

_LEAST = 8
_LEAST_HINTS = 20
_SURE = 0.95
_RARE = 0.8  # of the answers that are not the most common one
_MOST_BYTES = 16 * 2**20
_MOST_PERIOD = 20
_PAIR = re.compile(r"""(?<![\w./#:-])([\w./#:-]{0,63}\w)["']?\s*[:=,;|\t ]\s*["']?([^\s"',;|}\])]+)""")


@dataclass(frozen=True, slots=True)
class Answers:
    """What one column of labels says of each example, in order; `ids` are empty where labels have no names."""

    ids: Sequence[str]
    values: Sequence[str]


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere a candidate reads."""

    name: str
    texts: Mapping[str, str]
    tables: Sequence[Table]


def place_of(name: str, tree: Tree) -> Place:
    """`tree` read once, for all answers that may lie there."""
    texts = {
        path: file.data[:_MOST_BYTES].decode("utf-8", "replace")
        for path, file in tree.items()
        if b"\0" not in file.data[:4096]
    }
    return Place(name, texts, list(tables_of(tree)))


def answers_of(path: str, labels: Tree) -> list[Answers]:
    """The columns of one label file that tell examples apart."""
    found: list[Answers] = []
    for table in tables_of(Tree({path: labels[path]})):
        key = key_column(table)
        ids = table.cells[key] if key else []
        columns = [column for name, column in table.cells.items() if name != key]
        if table.array is not None:
            columns = [[_same(value) for value in column] for column in table.array.T.tolist()[:16]]
        columns = [column for column in columns if not numbered(column)]
        found += [
            Answers(ids, [_same(cell) for cell in column])
            for column in columns
            if len(column) >= _LEAST and len(set(column)) > 1
        ]
    return found


def told_in(places: Sequence[Place], answers: Sequence[Answers]) -> str | None:
    """Where the first of `answers` lies, if all of them lie in sight: beside ids, or in the order of the labels."""
    found = [_place(places, one) for one in answers]
    return found[0] if found and all(found) else None


def _place(places: Sequence[Place], answers: Answers) -> str | None:
    told = dict(zip(answers.ids, answers.values, strict=True)) if answers.ids else {}
    for place in places:
        for table in place.tables:
            if column := _column(table, answers, told):
                return f"{place.name}: {table.path}, {column}"
        for path, text in place.texts.items():
            if told and _paired(text, told):
                return f"{place.name}: {path}"
    return None


def _column(table: Table, answers: Answers, told: Mapping[str, str]) -> str | None:
    columns = {name: [_same(cell) for cell in column] for name, column in table.cells.items()}
    if table.array is not None and len(table) == len(answers.values):
        wanted = [number(value) for value in answers.values]
        if None in wanted:
            return None
        best = int((table.array == np.array(wanted, np.float64)[:, None]).mean(axis=0).argmax())
        column = [_same(value) for value in table.array[:, best].tolist()]
        return f"column {best + 1}" if _agree(column, answers.values) else None
    for key, ids in table.cells.items():
        known = [(place, told[one]) for place, one in enumerate(ids) if one in told]
        if len(known) > max(_LEAST, len(told) / 2):
            for name, column in columns.items():
                if name != key and _agree([column[place] for place, _ in known], [value for _, value in known]):
                    return f"column {name}" if name else "values"
    if len(table) == len(answers.values):
        for name, column in columns.items():
            if _agree(column, answers.values):
                return f"column {name}" if name else "values"
    return None


def _paired(text: str, told: Mapping[str, str]) -> bool:
    said: dict[str, str] = {}
    for match in _PAIR.finditer(text):
        name = match[1]
        if name in told and said.get(name) != told[name]:
            said[name] = _same(match[2])
    wanted = [told[name] for name in said]
    return len(said) > max(_LEAST, len(told) / 2) and _agree(list(said.values()), wanted)


def _agree(column: Sequence[str], values: Sequence[str]) -> bool:
    """Whether they are the same, also where the answer is not the most common one."""
    usual = Counter(values).most_common(1)[0][0] if values else ""
    right = [(one == other, other != usual) for one, other in zip(column, values, strict=True)]
    rare = [same for same, is_rare in right if is_rare]
    return bool(rare) and sum(same for same, _ in right) >= _SURE * len(right) and sum(rare) >= _RARE * len(rare)


def _same(cell: object) -> str:
    """Equal for 1, 1.0 and "1"."""
    text = str(cell)
    value = number(text)
    return text if value is None else repr(value)


def hints(inputs: Tree, answers: Answers) -> str | None:
    """How names or order give answers away that repeat; None where they do not."""
    values = _in_order(inputs, answers)
    if len(values) < _LEAST_HINTS:
        return None
    if order := _ordered(values):
        return order
    if len(set(values)) > len(values) / 4 or not answers.ids:
        return None
    for what, parts in _parts(answers.ids):
        groups: dict[str, Counter[str]] = defaultdict(Counter)
        for part, value in zip(parts, answers.values, strict=True):
            groups[part][value] += 1
        if len(groups) <= len(parts) / 4 and _told(groups, answers.values):
            return f"{what} of an id tells the answer: {answers.ids[0]}"
    return None


def _in_order(inputs: Tree, answers: Answers) -> Sequence[str]:
    """The answers in the order in which a candidate meets the examples."""
    told = dict(zip(answers.ids, answers.values, strict=True)) if answers.ids else {}
    for table in tables_of(inputs):
        for column in table.cells.values():
            if told and len(column) == len(told) and all(cell in told for cell in column):
                return [told[cell] for cell in column]
    return answers.values


def _ordered(values: Sequence[str]) -> str | None:
    counts, size = Counter(values), len(values)
    if len(counts) <= size / 4:
        same = sum(count * (count - 1) for count in counts.values()) / (size * (size - 1))
        expected = (size - 1) * (1 - same)
        changes = sum(one != other for one, other in pairwise(values))
        if expected >= _LEAST and changes <= expected / 4:
            return f"examples are sorted by answer: it changes {changes} times in {size}"
        for period in range(2, min(_MOST_PERIOD, size // 4) + 1):
            groups: dict[str, Counter[str]] = defaultdict(Counter)
            for place, value in enumerate(values):
                groups[f"{place % period}"][value] += 1
            if _told(groups, values):
                return f"answers come in turn, every {period} examples"
        return None
    numbers = [number(value) for value in values]
    known = [value for value in numbers if value is not None]
    if len(known) == size:
        steps = np.diff(np.array(known))
        if max((steps >= 0).mean(), (steps <= 0).mean()) >= _SURE:
            return "examples are sorted by answer"
    return None


def _told(groups: Mapping[str, Counter[str]], values: Sequence[str]) -> bool:
    """Whether the most common answer of each group is right, and says more than the most common of all."""
    right = sum(max(counts.values()) for counts in groups.values()) / len(values)
    usual = max(Counter(values).values()) / len(values)
    return right >= _SURE and right - usual >= (1 - usual) / 2 and usual < _SURE


def _parts(ids: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    yield "the word", [re.sub(r"\d+", "0", one) for one in ids]
    for place in range(min(map(len, ids))):
        yield f"character {place + 1}", [one[place] for one in ids]
    for place in range(1, min(map(len, ids)) + 1):
        yield "the last character" if place == 1 else f"character {place} from the end", [one[-place] for one in ids]
