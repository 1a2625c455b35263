"""The tables against the ledger: each row that a decision rests on must be what the ledger says it is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any, TypeVar, cast

from harness.archive.base import LedgerEntry, StoredProposal
from harness.archive.ledger import canonical
from harness.archive.reading import Contents
from harness.errors import IntegrityError
from harness.records import Json, Outcome, RolloutKey
from harness.research.raising import ROW, raised
from harness.research.rollouts import cite, same_items
from harness.research.standing import ROOT, Standing
from harness.untrusted import line

ONCE = ("run", "root", "stop", "vault")

_T = TypeVar("_T")


def fold(rows: Iterable[LedgerEntry]) -> Standing:
    """Where the ledger says the run stands. Raises IntegrityError naming the first row that makes no sense there."""
    standing = Standing("min")
    run: Mapping[str, Any] = {}
    seen: set[str] = set()
    known = frozenset((*ONCE, "ticket", "session", ROW))
    limits: dict[str, Json] = {}
    for row in rows:
        name = f"ledger {row.seq}"
        if row.kind not in known or (row.body is None) != (row.kind == "session"):
            raise IntegrityError(name, expected="a row of a known kind", found=line(row.kind))
        if row.kind in ONCE and row.kind in seen:
            raise IntegrityError(name, expected=f"one {row.kind} entry", found="a second one")
        seen.add(row.kind)
        try:
            if row.kind == "run" and row.body is not None:
                run = row.body
                limits = dict(run["policy"]["budget"])
                standing.direction = run["subject"]["eval"]["direction"]
                standing.workers = run["workers"]
            elif row.kind == ROW and row.body is not None:
                limits = raised(limits, row.body)
            elif row.kind == "root" and row.body is not None:
                standing.apply_root(row.body, run["root_tree"])
            elif row.kind == "ticket" and row.body is not None:
                standing.apply_ticket(row.body)
                if standing.incumbent.id != row.body["incumbent"]:
                    _same(f"{name} incumbent", standing.incumbent.id, row.body["incumbent"])
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, AssertionError) as error:
            what = f"one without {error}" if isinstance(error, KeyError) else f"one that does not: {error}"
            raise IntegrityError(name, expected=f"a {row.kind} entry that fits here", found=what) from error
    return standing


def check_tables(contents: Contents, standing: Standing) -> int:
    """Hold variants, attempts, proposals and rollouts against the ledger; how many rollouts it cites.

    Raises IntegrityError naming the first row that differs.
    """
    archived = {name: variant for name, variant in standing.variants.items() if name != ROOT}
    _same_rows("variant", {one.id: one for one in contents.variants}, archived)
    _same_rows(
        "attempt",
        {one.ticket: one for one in contents.attempts},
        {one.ticket: one for one in standing.attempts},
    )
    proposals = {one.ticket: one for one in contents.proposals}
    latest = standing.done + (standing.workers if standing.marks else 0)
    for ticket in proposals:
        if not 1 <= ticket <= latest:
            raise IntegrityError(f"proposal {ticket}", expected=f"none after ticket {latest}", found="one")
    stored = {str(key): (key, seed, outcome) for key, seed, outcome in contents.rollouts}
    cited = 0
    for row in contents.ledger:
        body: Any = row.body
        if row.kind == "ticket":
            found = proposals.get(body["ticket"])
            _same(f"proposal {body['ticket']}", None if found is None else _proposed(found), _cited_proposal(body))
        if row.kind in ("root", "ticket", "vault"):
            for citation in body["rollouts"]:
                _check_citation(citation, stored, standing)
                cited += 1
    _check_measured(contents)
    return cited


def _check_measured(contents: Contents) -> None:
    """What rollouts took and said decides nothing, but it was sealed too, by the ledger row after each."""
    told = {row.seq: row.obs["measured"] for row in contents.ledger if "measured" in row.obs}
    for seq in sorted({*told, *contents.sealed}):
        _same(f"the rollouts that ledger {seq} sealed", contents.sealed.get(seq), told.get(seq))


def _check_citation(
    citation: Mapping[str, Any], stored: Mapping[str, tuple[RolloutKey, int, Outcome | None]], standing: Standing
) -> None:
    name = str(citation["key"])
    if name not in stored:
        raise IntegrityError(f"rollout {name}", expected="an outcome", found="nothing")
    key, seed, outcome = stored[name]
    if outcome is None:
        raise IntegrityError(f"rollout {name}", expected="an outcome", found="none yet")
    expected = None if key.example else standing.item_ids.get(key.split.value)
    taken = same_items(outcome, expected)
    _same(f"rollout {name}", cite(key, seed, taken), citation)


def _proposed(found: StoredProposal) -> dict[str, Any]:
    return {
        "parent": found.parent,
        "tree": found.tree,
        "status": found.status,
        "note": found.note,
        "memo": found.memo,
        "violations": found.violations,
    }


def _cited_proposal(body: Mapping[str, Any]) -> dict[str, Any]:
    return {"parent": body["parent"], **body["proposal"]}


def _same_rows(kind: str, found: Mapping[Any, _T], expected: Mapping[Any, _T]) -> None:
    for name in _in_order([*expected, *found]):
        if found.get(name) != expected.get(name):
            before, after = _apart(_plain(expected.get(name)), _plain(found.get(name)))
            raise IntegrityError(f"{kind} {name}", expected=before, found=after)


def _in_order(names: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(names))


def _same(name: str, found: object, expected: object) -> None:
    if canonical(found) != canonical(expected):
        before, after = _apart(_plain(expected), _plain(found))
        raise IntegrityError(name, expected=before, found=after)


def _apart(expected: object, found: object, place: str = "") -> tuple[str, str]:
    """Both sides of the first value that differs, with its place inside the record."""
    one, other = _table(expected), _table(found)
    if one is not None and other is not None:
        for key in _in_order([*one, *other]):
            if one.get(key) != other.get(key):
                return _apart(one.get(key), other.get(key), f"{place}{key} ")
    return place + _shown(expected), place + _shown(found)


def _table(value: object) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _plain(value: object) -> object:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    return line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
