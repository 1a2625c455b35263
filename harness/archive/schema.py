"""The tables of run.db, and how records become rows and rows records."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections.abc import Iterable
from typing import Any, cast

from harness.archive.base import LedgerEntry, StoredProposal
from harness.archive.ledger import canonical
from harness.records import Attempt, Json, Outcome, RolloutKey, Split, Status, Variant, Verdict

VERSION = 2

# columns without a type keep a float bit for bit: REAL would turn -0.0 into 0.0
TABLES = """
CREATE TABLE schema (version INTEGER NOT NULL);
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
-- not read any more, as a run's state follows from its ledger: kept for exports of this version
CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), state TEXT NOT NULL, reason TEXT NOT NULL);
CREATE TABLE ledger (
    seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, ticket INTEGER UNIQUE, body TEXT, obs TEXT NOT NULL,
    hash TEXT NOT NULL, seal TEXT NOT NULL);
CREATE TABLE proposals (
    ticket INTEGER PRIMARY KEY, parent TEXT NOT NULL, tree TEXT, note TEXT NOT NULL, memo TEXT NOT NULL,
    violations TEXT NOT NULL, status TEXT NOT NULL);
CREATE TABLE variants (
    id TEXT PRIMARY KEY, ticket INTEGER NOT NULL, tree TEXT NOT NULL, parents TEXT NOT NULL, verdict TEXT NOT NULL,
    score, note TEXT NOT NULL);
CREATE TABLE attempts (
    ticket INTEGER PRIMARY KEY, parent TEXT NOT NULL, variant TEXT, verdict TEXT NOT NULL, score, parent_score,
    note TEXT NOT NULL, memo TEXT NOT NULL, reason TEXT NOT NULL);
CREATE TABLE rollouts (
    n INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, tree TEXT NOT NULL, split TEXT NOT NULL, repeat INTEGER NOT NULL,
    ticket INTEGER NOT NULL, purpose TEXT NOT NULL, example TEXT NOT NULL, seed INTEGER NOT NULL,
    begun INTEGER NOT NULL, status TEXT, score, items TEXT, detail TEXT, outputs TEXT, wall_s, cpu_s, memory_mb,
    sealed INTEGER);
CREATE INDEX unsealed ON rollouts (n) WHERE sealed IS NULL AND status IS NOT NULL;
CREATE TABLE sessions (n INTEGER PRIMARY KEY, wall_s REAL NOT NULL);
"""

LEDGER = "seq, kind, ticket, body, obs, hash, seal"
PROPOSAL = "ticket, parent, tree, note, memo, violations, status"
VARIANT = "id, ticket, tree, parents, verdict, score, note"
ATTEMPT = "ticket, parent, variant, verdict, score, parent_score, note, memo, reason"
RESERVED = "key, tree, split, repeat, ticket, purpose, example, seed, begun"
ROLLOUT = (
    "tree, split, repeat, ticket, purpose, example, seed, status, score, items, detail, outputs,"
    " wall_s, cpu_s, memory_mb"
)

Row = tuple[Any, ...]


def text(value: str) -> str:
    """Text that any column holds: lone surrogates become visible escapes."""
    return value.encode("utf-8", "backslashreplace").decode()


def loads(value: str) -> Json:
    """JSON back; what `canonical` refuses to write is refused here as well."""
    return cast("Json", json.loads(value, parse_constant=_refuse))


def _refuse(name: str) -> Json:
    raise ValueError(f"{name} is not a finite number")


def insert(connection: sqlite3.Connection, table: str, columns: str, row: Row) -> None:
    """Add one row; `table` and `columns` are constants of this module."""
    marks = ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", row)  # noqa: S608 - constants


def ledger_row(entry: LedgerEntry) -> Row:
    body = None if entry.body is None else canonical(entry.body)
    return (entry.seq, entry.kind, entry.ticket, body, canonical(entry.obs), entry.hash, entry.seal)


def as_ledger(row: Row) -> LedgerEntry:
    seq, kind, ticket, body, obs, row_hash, seal = row
    return LedgerEntry(seq, kind, ticket, None if body is None else _mapping(body), _mapping(obs), row_hash, seal)


def proposal_row(proposal: StoredProposal) -> Row:
    return (
        proposal.ticket,
        proposal.parent,
        proposal.tree,
        text(proposal.note),
        canonical(proposal.memo),
        canonical(proposal.violations),
        proposal.status,
    )


def as_proposal(row: Row) -> StoredProposal:
    ticket, parent, tree, note, memo, violations, status = row
    return StoredProposal(ticket, parent, tree, note, _mapping(memo), tuple(_strings(violations)), status)


def variant_row(variant: Variant) -> Row:
    return (
        variant.id,
        variant.ticket,
        variant.tree,
        canonical(variant.parents),
        str(variant.verdict),
        _number(variant.score),
        text(variant.note),
    )


def as_variant(row: Row) -> Variant:
    name, ticket, tree, parents, verdict, score, note = row
    return Variant(name, ticket, tree, tuple(_strings(parents)), Verdict(verdict), score, note)


def attempt_row(attempt: Attempt) -> Row:
    return (
        attempt.ticket,
        attempt.parent,
        attempt.variant,
        str(attempt.verdict),
        _number(attempt.score),
        _number(attempt.parent_score),
        text(attempt.note),
        canonical(attempt.memo),
        text(attempt.reason),
    )


def as_attempt(row: Row) -> Attempt:
    ticket, parent, variant, verdict, score, parent_score, note, memo, reason = row
    return Attempt(ticket, parent, variant, Verdict(verdict), score, parent_score, note, _mapping(memo), reason)


def outcome_row(outcome: Outcome) -> Row:
    return (
        str(outcome.status),
        _number(outcome.score),
        canonical(outcome.items),
        text(outcome.detail),
        text(outcome.outputs),
        float(outcome.wall_s),
        float(outcome.cpu_s),
        None if outcome.memory_mb is None else float(outcome.memory_mb),
    )


def as_rollout(row: Row) -> tuple[RolloutKey, int, Outcome | None]:
    tree, split, repeat, ticket, purpose, example, seed, status, *measured = row
    key = RolloutKey(tree, Split(split), repeat, ticket, purpose, example)
    if status is None:
        return key, seed, None
    score, items, detail, outputs, wall_s, cpu_s, memory_mb = measured
    scores = cast("dict[str, float]", _mapping(items))
    return key, seed, Outcome(Status(status), score, scores, detail, outputs, wall_s, cpu_s, memory_mb)


def digest(rows: Iterable[Row]) -> str:
    """SHA-256 over whole rollouts, each a row of `ROLLOUT`'s columns."""
    whole = hashlib.sha256()
    for row in rows:
        whole.update(canonical(list(row)).encode() + b"\n")
    return whole.hexdigest()


def _number(value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise ValueError(f"{value} is no score: a missing score is None")
    return None if value is None else float(value)


def _mapping(value: str) -> dict[str, Json]:
    found = loads(value)
    if not isinstance(found, dict):
        raise TypeError(f"expected a JSON object, found {type(found).__name__}")
    return found


def _strings(value: str) -> list[str]:
    found = loads(value)
    if not isinstance(found, list):
        raise TypeError(f"expected a JSON list, found {type(found).__name__}")
    return [str(one) for one in found]
