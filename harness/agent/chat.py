"""The chat agent: one model reads the subject and what was tried, and writes one edit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.agent import prompt
from harness.agent.base import Ask, Proposal
from harness.agent.bench import Bench
from harness.agent.edits import Edits, Unusable, read
from harness.agent.gist import gist
from harness.errors import AgentError, InputError
from harness.model.base import PROPOSER, Caller
from harness.model.gateway import ask as ask_model
from harness.model.server import Server
from harness.model.silence import spoken, why_silent
from harness.model.sse import whole
from harness.records import Json, Reply
from harness.tree import Tree
from harness.untrusted import line

PATH = "/v1/chat/completions"
_OVERLONG = (b"context length", b"context_length", b"context window", b"context size", b"too long", b"too large")


class _TooLong(Exception):  # noqa: N818 - asked again with less
    """The model cannot take in so much."""


class ChatConfig(BaseModel):
    """`[policy.agent.config]` of the chat agent.

    `model` is a name of `[policy.models]` (it may be left out when there is one); `history` how many tries the model is
    shown, with the `lines` that each changed; `file_kb` how much of the subject; `instructions` what else it should
    know; `repairs` how often a reply that cannot be used is sent back.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = ""
    temperature: float | None = Field(default=0.7, ge=0, le=2)
    max_tokens: int = Field(default=4096, ge=16)
    history: int = Field(default=20, ge=0)
    lines: bool = True
    file_kb: int = Field(default=64, ge=1)
    repairs: int = Field(default=1, ge=0, le=5)
    instructions: str = ""


class ChatAgent:
    """Proposes what a chat model writes; see `Agent`. Needs `[models.NAME]` in the policy."""

    name = "chat"
    needs_model = True

    def __init__(self, config: Mapping[str, object] | None = None) -> None:
        try:
            self._config = ChatConfig.model_validate(dict(config or {}))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(["policy.agent.config", *map(str, first["loc"])])
            known = ", ".join(sorted(ChatConfig.model_fields))
            raise InputError(first["msg"], key=key, mend=f"the chat agent knows {known}") from None
        self._server: Server | None = None

    def equip(self, bench: Bench) -> None:
        if bench.server is None:
            return  # a look at the subject, in which nobody proposes: a run is refused before it opens
        names = list(bench.server.gateway.routes)
        if self._config.model and self._config.model not in names:
            raise InputError(
                f"no model called {self._config.model!r}",
                key="policy.agent.config.model",
                mend=f"one of {', '.join(names)}",
            )
        self._server = bench.server

    async def propose(self, ask: Ask) -> Proposal | None:
        """What the model makes of the ask. Raises AgentError when nothing could be made of its replies."""
        assert self._server is not None, "equip comes first"
        too_long = ""
        for lean in range(prompt.LEANEST + 1):
            try:
                return await self._converse(ask, lean)
            except _TooLong as error:
                too_long = str(error)
        raise AgentError(
            f"the prompt is too long for this model, even with the editable files alone: {too_long}; lower "
            "max_tokens, or give a model with a longer context"
        )

    async def _converse(self, ask: Ask, lean: int) -> Proposal:
        """Ask, and send back what cannot be used. Raises AgentError, _TooLong."""
        config = self._config
        first = prompt.messages(
            ask,
            history=config.history,
            file_bytes=config.file_kb * 1024,
            extra=config.instructions,
            lean=lean,
            lines=config.lines,
        )
        said, why, reason = first, "", ""
        for attempt in range(config.repairs + 1):
            try:
                reply, cut = await self._say(ask, said)
            except _TooLong:
                if attempt == 0:
                    raise
                break  # the reply that was sent back is what made it too long
            why = prompt.said_why(reply) or why
            try:
                edits = read(reply, ask.tree, ask.is_editable, cut=cut)
            except Unusable as error:
                reason = str(error)
                said = [*first, *prompt.repair(reply, reason)]
                continue
            return _proposal(ask.tree, edits, why, repaired=attempt, lean=lean)
        raise AgentError(f"no usable edit after {config.repairs + 1} replies: {line(reason, 200)}")

    async def _say(self, ask: Ask, messages: list[dict[str, str]]) -> tuple[str, bool]:
        """(what the model answers, whether it was cut at max_tokens). Raises AgentError, _TooLong."""
        assert self._server is not None
        config, gateway = self._config, self._server.gateway
        body: dict[str, Json] = {
            "model": config.model or next(iter(gateway.routes)),
            "messages": cast("list[Json]", messages),
            "max_tokens": config.max_tokens,
        }
        if config.temperature is not None:
            body["temperature"] = config.temperature
        reply = await ask_model(gateway, Caller(ask.ticket, PROPOSER, ask.parent.id), PATH, body)
        if reply.status in {400, 413} and any(sign in reply.body.lower() for sign in _OVERLONG):
            raise _TooLong(_error(reply))
        if reply.status != 200:
            raise AgentError(f"the model did not answer: {_error(reply)}")
        choice = cast("dict[str, Any]", whole(reply.body))["choices"][0]
        text = spoken(choice)
        if not text.strip():
            # there is nothing to send back, and the same question would be answered in the same way
            more = "; raise max_tokens of the agent" if choice.get("finish_reason") == "length" else ""
            raise AgentError(f"the model said nothing: {why_silent(choice)}{more}")
        return text, choice.get("finish_reason") == "length"


def _error(reply: Reply) -> str:
    try:
        error = cast("dict[str, Any]", whole(reply.body)).get("error")
    except ValueError:
        error = None
    message = cast("dict[str, Any]", error).get("message") if isinstance(error, dict) else None
    return f"HTTP {reply.status}: {line(str(message or ''), 200)}"


def _proposal(tree: Tree, edits: Edits, why: str, *, repaired: int, lean: int) -> Proposal:
    touched = ", ".join(sorted(edits.changes)[:3])
    memo: dict[str, Json] = {"format": edits.format, "repaired": repaired, **({"lean": lean} if lean else {})}
    memo[prompt.LINES] = gist(tree, edits.changes)
    return Proposal(changes=edits.changes, note=why or f"edits {touched}", memo=memo)
