"""What the files alone say against an eval: answers that lie in sight, and scorers that run what they read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping

from harness.evaluation.subject import Subject
from harness.research.preflight.sight import answers_of, hints, place_of, told_in
from harness.tree import Tree

_LEAST_BYTES = 24
_LEAST_ROWS = 8
_MOST_BYTES = 16 * 2**20
_SHARE = 0.5
_RUNS = (
    (rb"\bpickle\.(load|Unpickler)|\bc?[Pp]ickle\.loads|\bdill\.load|\bcloudpickle\.load", "unpickles"),
    (rb"\btorch\.load\((?![^)]*weights_only\s*=\s*True)", "unpickles (torch.load without weights_only=True)"),
    (rb"allow_pickle\s*=\s*True", "unpickles (allow_pickle=True)"),
    (rb"\bjoblib\.load|\bpd\.read_pickle|\bpandas\.read_pickle|\bshelve\.open|\bmarshal\.loads?", "unpickles"),
    (rb"\byaml\.(unsafe_load|full_load|load)\((?![^)]*Safe)", "makes objects from YAML (use yaml.safe_load)"),
    (rb"(?<![\w.])(eval|exec)\((?!\s*\))", "evaluates text"),
    (rb"sys\.path\.(insert|append)\([^)]*/out|PYTHONPATH[^\n]*/out", "imports from /out"),
    (rb"os\.system\(|subprocess\.[^\n]*shell\s*=\s*True|os\.popen\(", "runs a shell"),
)
_PATTERNS = tuple((re.compile(pattern), what) for pattern, what in _RUNS)


def answers_in_sight(subject: Subject) -> list[str]:
    """Splits whose labels a candidate can read, all of them: whole, row by row, as a column, or as pairs with ids.

    Each is one line that says where.

    A scorer may need some of the inputs again, so a label file that is also an input says nothing alone.
    """
    seen = {"the tree": subject.root}
    seen |= {f"{split}'s inputs": data.inputs for split, data in subject.splits.items()}
    shown = {f"{place}: {path}": file.data for place, tree in seen.items() for path, file in tree.items()}
    digests = {hashlib.sha256(data).digest(): name for name, data in shown.items()}
    rows = {name: frozenset(_rows(data)) for name, data in shown.items()}
    places = [place_of(name, tree) for name, tree in seen.items()]
    found: list[str] = []
    for split, data in subject.splits.items():
        told = [
            digests.get(hashlib.sha256(file.data).digest())
            or _told_by(frozenset(_rows(file.data)), rows)
            or told_in(places, answers_of(path, data.labels))
            for path, file in data.labels.items()
            if len(file.data) >= _LEAST_BYTES
        ]
        if told and all(told):
            found.append(f"{split}'s labels lie in {told[0]}")
    return found


def answers_hinted(subject: Subject) -> list[str]:
    """Splits whose ids or order give answers away: each one line that says how."""
    found: list[str] = []
    for split, data in subject.splits.items():
        answers = [one for path in data.labels for one in answers_of(path, data.labels)]
        told = [hint for one in answers if (hint := hints(data.inputs, one))]
        found += [f"{split}: {told[0]}"] if told else []
    return found


def _told_by(wanted: frozenset[bytes], rows: Mapping[str, frozenset[bytes]]) -> str | None:
    if len(wanted) < _LEAST_ROWS:
        return None
    return next((name for name, told in rows.items() if len(wanted & told) > _SHARE * len(wanted)), None)


def _rows(data: bytes) -> Iterator[bytes]:
    if len(data) <= _MOST_BYTES and b"\0" not in data[:4096]:
        yield from (row.strip() for row in data.split(b"\n") if len(row.strip()) > 2)


def careless(scorer: Tree) -> list[str]:
    """Places where a scorer runs what it reads: it reads what a candidate wrote."""
    found: list[str] = []
    for path, file in scorer.items():
        if path.endswith((".py", ".sh")):
            for number, row in enumerate(file.data[:_MOST_BYTES].split(b"\n"), start=1):
                code = row.split(b"#", 1)[0]
                found += [f"{path}:{number} {what}" for pattern, what in _PATTERNS if pattern.search(code)][:1]
    return found
