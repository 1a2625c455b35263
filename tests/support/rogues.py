"""Agents that break the agent protocol, each in one way."""

import asyncio

from harness import Proposal


class Rogue:
    """At ticket 1 it does what `config["act"]` says; afterwards it proposes honestly."""

    name = "rogue"

    def __init__(self, config):
        self.act = config["act"]
        if self.act == "init":
            raise ValueError("no")

    async def propose(self, ask):
        if ask.ticket == 1:
            return getattr(self, self.act)()
        source = ask.tree["train.py"].data.decode().replace("VALUE = 20", f"VALUE = {20 + ask.ticket}")
        return Proposal(changes={"train.py": source.encode()}, note="honest")

    def raises(self):
        raise RuntimeError("boom \x1b[31m")

    def exits(self):
        raise SystemExit(0)

    def cancels(self):
        raise asyncio.CancelledError

    def number(self):
        return 42

    def text_change(self):
        return Proposal(changes={"train.py": "text"})

    def no_changes(self):
        return Proposal(changes=None)

    def nan_memo(self):
        return Proposal(memo={"x": float("nan")})

    def object_memo(self):
        return Proposal(memo={"x": object()})

    def huge_memo(self):
        return Proposal(memo={"x": "y" * 1_000_000})

    def no_note(self):
        return Proposal(note=None)

    def odd_tree(self):
        return Proposal(tree=("train.py",))
