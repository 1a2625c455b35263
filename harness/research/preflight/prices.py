"""What models cost, and whether their budgets hold even one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from harness.model.pricing import NANO, listed, price_of
from harness.research.session import Session

_Found = TypeVar("_Found")
# what coding agents ask with: codex sends 42 kB, each byte held as a token
AGENT_BYTES = 40_000


def price_findings(session: Session, finding: Callable[..., _Found]) -> list[_Found]:
    """Models of which nobody knows what they cost."""
    models = session.policy.models
    if not models:
        return []
    unknown = sorted(name for name, model in models.items() if model.price is None and not listed(model.model or name))
    if unknown:
        return [
            finding(
                "prices",
                "warning",
                f"no price for {', '.join(unknown)}: what is spent there in money is not known",
                "add a price table to the model, in USD for a million tokens",
            )
        ]
    return [finding("prices", "ok", f"known for {len(models)} models")]


def call_findings(session: Session, finding: Callable[..., _Found]) -> list[_Found]:
    """Model budgets that cannot hold one call of the proposer's at its worst case."""
    budget, models = session.policy.budget, session.policy.models
    agent = session.agent
    if not models or not getattr(agent, "needs_model", False):
        return []
    files = sum(len(file.data) for path, file in session.subject.root.items() if session.subject.editable(path))
    ins = AGENT_BYTES if getattr(agent, "boxed", False) else files
    said = session.policy.agent.config.get("model")
    name = said if isinstance(said, str) and said in models else next(iter(models))
    cap = models[name].max_output_tokens
    chat = session.policy.agent.config.get("max_tokens", 4096) if agent.name == "chat" else cap
    outs = min(cap, chat) if isinstance(chat, int) else cap
    usd = price_of(name, models[name], needed=False).most(ins, outs) / NANO
    short = [
        f"budget.{kind} = {limit:.10g}, and about {worst:.6g} is held"
        for kind, limit, worst in (
            ("tokens_in", budget.tokens_in, ins),
            ("tokens_out", budget.tokens_out, outs),
            ("usd", budget.usd, usd),
        )
        if limit is not None and worst > limit
    ]
    if not short:
        return []
    mend = "raise it well above that, or lower max_output_tokens of the model: what a call did not take is given back"
    return [finding("model budget", "warning", f"for one call at its worst: {'; '.join(short)}", mend)]
