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
    """Every row, in order. Raises IntegrityError naming the first whose hash or seal does not follow.

    What was hashed when it was written is the canonical text, and that text is what is stored: hashing it as it stands
    finds every change that parsing and writing it anew would find.
    """
    found: list[LedgerEntry] = []
    row_hash = seal = ZEROS
    last_ticket = -1
    for number, row in enumerate(
        connection.execute(f"SELECT {schema.LEDGER} FROM ledger ORDER BY seq"),  # noqa: S608 - constants
        start=1,
    ):
        seq, kind, ticket, body, obs, told_hash, told_seal = row
        name = f"ledger {number}"
        if seq != number:
            raise IntegrityError(name, expected=f"row {number}", found=f"row {seq}")
        if body is not None:
            row_hash = _sha256(row_hash, kind, body)
        if told_hash != row_hash:
            raise IntegrityError(name, expected=f"hash {row_hash}", found=f"hash {told_hash}")
        seal = _sha256(seal, row_hash, kind, obs)
        if told_seal != seal:
            raise IntegrityError(name, expected=f"seal {seal}", found=f"seal {told_seal}")
        entry = LedgerEntry(seq, kind, ticket, _object(body), _object(obs) or {}, row_hash, seal)
        cited = entry.body.get("ticket") if kind == "ticket" and entry.body is not None else None
        if ticket != cited:
            raise IntegrityError(name, expected=f"ticket {cited}", found=f"ticket {ticket}")
        if ticket is not None:
            if ticket <= last_ticket:
                raise IntegrityError(name, expected=f"a ticket after {last_ticket}", found=f"ticket {ticket}")
            last_ticket = ticket
        found.append(entry)
    return found


def _sha256(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _object(text: str | None) -> Any:  # noqa: ANN401 - any JSON object
    return None if text is None else json.loads(text, parse_constant=_refuse)


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a finite number")
