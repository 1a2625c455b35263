"""What an honest run's outputs look like: declared by the subject, checked as plain data before they are scored."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Sequence

from harness.policy.schema import PlausibleTable
from harness.tree import Entry
from harness.untrusted import line

_TOLERANCE = 1e-6
_CSV_BYTES = 16 * 2**20


def implausible(table: PlausibleTable, written: Sequence[Entry]) -> str | None:
    """Why these outputs cannot come from an honest run, in one line of clean text; None when nothing says so."""
    found = {entry.path.decode("utf-8", "replace"): entry.data for entry in written}
    for name in table.outputs:
        if name not in found:
            return f"implausible: {name} was not written"
        if len(found[name]) < table.min_bytes:
            return f"implausible: {name} holds {len(found[name])} bytes, fewer than {table.min_bytes}"
    for name in table.sums_to_one:
        reason = _unnormalised(found.get(name, b""))
        if reason:
            return f"implausible: {name} {reason}"
    if table.max_share < 1.0:
        for name, data in found.items():
            reason = _lopsided(data, table.max_share) if name.endswith(".csv") else None
            if reason:
                return f"implausible: {line(name, 60)} {reason}"
    return None


def too_little_work(table: PlausibleTable, cpu_s: float, root_cpu_s: float) -> bool:
    """Whether a run took a smaller share of the root's processor time than the subject calls possible."""
    return table.min_work > 0 and cpu_s < table.min_work * root_cpu_s


def _unnormalised(data: bytes) -> str | None:
    """The row that is no distribution: numbers between 0 and 1 that add up to 1. Ids in front are skipped."""
    rows = _rows(data)
    if not rows:
        return "holds no rows"
    has_header = _number(rows[0][-1]) is None
    ids = int(_number(rows[-1][0]) is None or (has_header and rows[0][0].strip().lower() in ("id", "")))
    for number, row in enumerate(rows[has_header:], start=1 + has_header):
        numbers = [_number(cell) for cell in row[ids:]]
        if not numbers or any(value is None or not 0.0 <= value <= 1.0 for value in numbers):
            return f"row {number} is no row of probabilities"
        total = math.fsum(value for value in numbers if value is not None)
        if not math.isclose(total, 1.0, abs_tol=_TOLERANCE):
            return f"row {number} adds up to {total:.6g}, not to 1"
    return None


def _lopsided(data: bytes, max_share: float) -> str | None:
    answers = [row[-1] for row in _rows(data)[1:] if row]
    if len(answers) < 2:
        return None
    answer, count = Counter(answers).most_common(1)[0]
    share = count / len(answers)
    return f"answers {line(answer, 20)} in {share:.0%} of its rows" if share > max_share else None


def _rows(data: bytes) -> list[list[str]]:
    text = data[:_CSV_BYTES].decode("utf-8", "replace")
    try:
        return [row for row in csv.reader(io.StringIO(text)) if row]
    except csv.Error:
        return []


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
