"""The self-editing agent: each parent's own entry point runs in a box and changes a copy of its own code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.agent.base import Ask, Proposal
from harness.agent.bench import Bench
from harness.agent.diagnosis import Diagnosis, diagnose
from harness.agent.editing import Edited, Order, edit
from harness.errors import AgentError, InfraError, InputError
from harness.model.base import Caller
from harness.records import Json, Status
from harness.streams import derive
from harness.tree import Entry
from harness.untrusted import line

_TRIES = 3
_NEEDS = 'say how it edits code: [editor] run = ["python", "agent.py", "edit"]'


class SelfEditConfig(BaseModel):
    """`[policy.agent.config]`: none so far; the subject's `[editor]` says how it edits itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SelfEditAgent:
    """Lets the parent edit itself; see `Agent`. A control may have the root do all editing instead."""

    name = "self_edit"
    boxed = True
    edits_itself = True

    def __init__(self, config: Mapping[str, object] | None = None) -> None:
        try:
            SelfEditConfig.model_validate(dict(config or {}))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise InputError(first["msg"], key="policy.agent.config", mend="it has no settings") from None
        self._bench: Bench | None = None

    def equip(self, bench: Bench) -> None:
        """See `Equipped`. Raises InputError for a subject that does not say how it edits code."""
        if bench.file is None or bench.file.editor is None:
            raise InputError("the subject is no agent that edits code", key="editor", mend=_NEEDS)
        self._bench = bench

    async def propose(self, ask: Ask) -> Proposal | None:
        """The child that the parent makes of itself; an edit that fails is the parent again, and so a duplicate."""
        found = diagnose(ask.traces, ask.history, ask.parent.id, ask.ticket, ask.rng)
        edited = await self._edited(ask, found)
        memo: dict[str, Json] = {"diagnosis": found.kind, "hypothesis": _claim(edited.claim, found)}
        if found.task:
            memo["task"] = found.task
        if edited.status is not Status.OK:
            note = line(f"{found.kind}: its edit failed ({edited.status}): {edited.detail}", 300)
            return Proposal(tree=tuple(ask.tree.entries()), note=note, memo=memo)
        return Proposal(tree=_without_caches(edited.entries), note=_note(found, memo), memo=memo)

    async def _edited(self, ask: Ask, found: Diagnosis) -> Edited:
        bench = self._bench
        assert bench is not None
        assert bench.file is not None
        assert bench.file.editor is not None
        editor = bench.file.editor
        env = {**bench.file.eval.env, "STROP_SEED": str(derive(0, "edit", ask.ticket) % 2**31)}
        order = Order(editor.run, editor.timeout_s, env)
        spec = bench.spec
        if bench.server is not None:
            spec = replace(spec, link=bench.server.link(Caller(ask.ticket, "edit", ask.parent.id)))
        for attempt in range(1, _TRIES + 1):
            try:
                return await edit(
                    bench.boxes,
                    spec,
                    order,
                    editor=bench.fixed or ask.tree,
                    tree=ask.tree,
                    problem=found.text,
                )
            except InfraError as error:
                if attempt == _TRIES:
                    raise AgentError(f"its box failed {_TRIES} times: {error.message}") from error
        raise AssertionError


def _claim(told: bytes, found: Diagnosis) -> dict[str, Json]:
    """The hypothesis: the agent's own words where it wrote any, and the diagnosed task as what shows it wrong."""
    fallback = f"the child solves {found.task}" if found.task else "the child is no worse on visible tasks"
    try:
        table: Any = json.loads(told) if told else None
    except (ValueError, RecursionError):
        table = None
    said = cast("dict[str, Any]", table) if isinstance(table, dict) else {}
    claim = said.get("claim")
    own = said.get("solves")
    solves = [line(str(one), 120) for one in cast("list[Any]", own)[:20]] if isinstance(own, list) else []
    named: list[Json] = [*solves] or ([found.task] if found.task else [])
    return {"claim": line(str(claim), 300) if isinstance(claim, str) and claim.strip() else fallback, "solves": named}


def _note(found: Diagnosis, memo: Mapping[str, Any]) -> str:
    return line(f"{found.kind}{f' {found.task}' if found.task else ''}: {memo['hypothesis']['claim']}", 300)


def _without_caches(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """What came back, less what Python writes beside the code it imports."""
    return tuple(one for one in entries if b"__pycache__" not in one.path.split(b"/"))
