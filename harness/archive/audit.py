"""Read a ledger and compute both its chains again, over the very text that is stored: quick enough for long ones."""

from __future__ import annotations

import gc
import hashlib
import json
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from harness.archive import schema
from harness.archive.base import LedgerEntry
from harness.archive.ledger import ZEROS
from harness.errors import IntegrityError


@contextmanager
def collector_paused() -> Generator[None]:
    """While very many objects that stay are made, looking for garbage among them costs more than making them."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def sound(connection: sqlite3.Connection) -> list[LedgerEntry]:
    """Every row, in order, as `walk` gives them."""
    return list(walk(connection))


def walk(connection: sqlite3.Connection) -> Generator[LedgerEntry]:
    """Every row, one at a time. Raises IntegrityError at the first whose hash or seal does not follow.

    What was hashed when it was written is the canonical text, and that text is what is stored: hashing it as it stands
    finds every change that parsing and writing it anew would find.
    """
    last_ticket = -1
    for seq, kind, ticket, body, obs, row_hash, seal in _chained(connection):
        entry = LedgerEntry(seq, kind, ticket, _object(body), _object(obs) or {}, row_hash, seal)
        cited = entry.body.get("ticket") if kind == "ticket" and entry.body is not None else None
        name = f"ledger {seq}"
        if ticket != cited:
            raise IntegrityError(name, expected=f"ticket {cited}", found=f"ticket {ticket}")
        if ticket is not None:
            if ticket <= last_ticket:
                raise IntegrityError(name, expected=f"a ticket after {last_ticket}", found=f"ticket {ticket}")
            last_ticket = ticket
        yield entry


def check(connection: sqlite3.Connection) -> int:
    """Compute both chains again without reading what the rows say; how many there are. Raises IntegrityError."""
    return sum(1 for _ in _chained(connection))


def _chained(connection: sqlite3.Connection) -> Generator[schema.Row]:
    sha256, previous, seal = hashlib.sha256, ZEROS, ZEROS
    rows = connection.execute(f"SELECT {schema.LEDGER} FROM ledger ORDER BY seq")  # noqa: S608 - constants
    for number, row in enumerate(rows, start=1):
        seq, kind, _, body, obs, told_hash, told_seal = row
        if seq != number:
            raise IntegrityError(f"ledger {number}", expected=f"row {number}", found=f"row {seq}")
        if body is not None:
            previous = sha256(f"{previous}\n{kind}\n{body}".encode()).hexdigest()
        if told_hash != previous:
            raise IntegrityError(f"ledger {number}", expected=f"hash {previous}", found=f"hash {told_hash}")
        seal = sha256(f"{seal}\n{previous}\n{kind}\n{obs}".encode()).hexdigest()
        if told_seal != seal:
            raise IntegrityError(f"ledger {number}", expected=f"seal {seal}", found=f"seal {told_seal}")
        yield row


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a finite number")


# one for all rows: json.loads would make another each time it is told about constants
_decode = json.JSONDecoder(parse_constant=_refuse).raw_decode


def _object(text: str | None) -> Any:  # noqa: ANN401 - any JSON object
    if text is None:
        return None
    found, end = _decode(text)
    if end != len(text):
        raise ValueError(f"{len(text) - end} characters after the end")
    return found
