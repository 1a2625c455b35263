"""The two hash chains of the ledger, as pure functions over rows.

hash = sha256(previous hash \\n kind \\n canonical body) for rows with a body, else the previous hash
seal = sha256(previous seal \\n hash \\n kind \\n canonical obs)
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from harness.archive.base import LedgerEntry
from harness.errors import IntegrityError
from harness.records import Json

ZEROS = "0" * 64
DEPTH = 64


def canonical(value: object) -> str:
    """JSON with sorted keys, no spaces, ASCII only and floats by repr: equal values, equal text.

    Raises ValueError on NaN, infinities and nesting past `DEPTH`, TypeError on anything that is not JSON.
    """
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def plain(value: object, depth: int = 0) -> Json:
    """The value as plain dicts, lists and scalars; what JSON would silently change is refused."""
    if depth > DEPTH:
        raise ValueError(f"nested deeper than {DEPTH}")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is not a finite number")
        return float(value)
    if isinstance(value, Mapping):
        return _plain_mapping(cast("Mapping[object, object]", value), depth)
    if isinstance(value, list | tuple):
        return [plain(one, depth + 1) for one in cast("Sequence[object]", value)]
    raise TypeError(f"{type(value).__name__} is not JSON")


def _plain_mapping(value: Mapping[object, object], depth: int) -> Json:
    found: dict[str, Json] = {}
    for key, one in value.items():
        if not isinstance(key, str):
            raise TypeError(f"a key of type {type(key).__name__} is not JSON")
        found[str.__str__(key)] = plain(one, depth + 1)
    return found


def digest(value: object) -> str:
    """SHA-256 of the canonical JSON, hex."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def items_digest(items: Mapping[str, float]) -> str:
    """How the ledger cites an outcome's items: their digest, or "" when there are none."""
    return digest(items) if items else ""


def next_hash(previous: str, kind: str, body: Mapping[str, Json] | None) -> str:
    """The content chain's next link."""
    return previous if body is None else _sha256(previous, kind, canonical(body))


def next_seal(previous: str, row_hash: str, kind: str, obs: Mapping[str, Json]) -> str:
    """The observation chain's next link."""
    return _sha256(previous, row_hash, kind, canonical(obs))


def _sha256(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def link(
    head: tuple[int, str, str],
    kind: str,
    ticket: int | None,
    body: Mapping[str, Json] | None,
    obs: Mapping[str, Json],
) -> LedgerEntry:
    """The row that follows `head`, which is (seq, hash, seal) of the last one."""
    seq, last_hash, last_seal = head
    row_hash = next_hash(last_hash, kind, body)
    return LedgerEntry(seq + 1, kind, ticket, body, obs, row_hash, next_seal(last_seal, row_hash, kind, obs))


def verify_chain(rows: Iterable[LedgerEntry], *, after: tuple[int, str, str] = (0, ZEROS, ZEROS)) -> None:
    """Compute both chains again. `after` is (seq, hash, seal) of the row before the first.

    Raises IntegrityError naming the first bad row, as "ledger 17".
    """
    seq, row_hash, seal = after
    last_ticket: int | None = None
    for row in rows:
        seq += 1
        name = f"ledger {seq}"
        if row.seq != seq:
            raise IntegrityError(name, expected=f"row {seq}", found=f"row {row.seq}")
        row_hash = next_hash(row_hash, row.kind, row.body)
        if row.hash != row_hash:
            raise IntegrityError(name, expected=f"hash {row_hash}", found=f"hash {row.hash}")
        seal = next_seal(seal, row_hash, row.kind, row.obs)
        if row.seal != seal:
            raise IntegrityError(name, expected=f"seal {seal}", found=f"seal {row.seal}")
        cited = row.body.get("ticket") if row.kind == "ticket" and row.body is not None else None
        if row.ticket != cited:
            raise IntegrityError(name, expected=f"ticket {cited}", found=f"ticket {row.ticket}")
        if row.ticket is not None:
            if last_ticket is not None and row.ticket <= last_ticket:
                raise IntegrityError(name, expected=f"a ticket after {last_ticket}", found=f"ticket {row.ticket}")
            last_ticket = row.ticket
