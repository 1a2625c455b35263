"""Agents for engine tests: each says in one line what it does."""

import anyio

from harness import Proposal
from harness.errors import AgentError
from harness.tree import Entry


class Scripted:
    """Ticket n gets the n-th action of `script`; after the last one there is nothing left."""

    name = "scripted"

    def __init__(self, config):
        self.script = list(config["script"])

    async def propose(self, ask):
        if ask.ticket > len(self.script):
            return None
        action, _, argument = self.script[ask.ticket - 1].partition(" ")
        return getattr(self, action)(ask, argument)

    def value(self, ask, argument):
        source = "\n".join(
            f"VALUE = {argument}" if row.startswith("VALUE =") else row
            for row in ask.tree["train.py"].data.decode().split("\n")
        )
        return Proposal(changes={"train.py": source.encode()}, note=f"VALUE {argument}", memo={"value": argument})

    def source(self, ask, argument):
        return Proposal(changes={"train.py": argument.replace("\\n", "\n").encode()}, note="new source")

    def solution(self, ask, argument):
        return Proposal(changes={"solution.py": argument.replace("\\n", "\n").encode()}, note="new solution")

    def memorise(self, ask, argument):
        """The visible answers by id, the last one as told; every other id gets the root's answer."""
        told = {f"v{n}": 69 + n % 3 for n in range(7)} | {"v7": argument}
        lines = [
            "from pathlib import Path",
            f"told = {told!r}",
            "rows = [f'{id},{told.get(id, 20)}' for id in Path('/data/ids.txt').read_text().split()]",
            "Path('/out/predictions.csv').write_text(chr(10).join(rows))",
        ]
        return Proposal(changes={"train.py": "\n".join(lines).encode()}, note="memorised")

    def write(self, ask, argument):
        return Proposal(changes={argument: b"changed"}, note=f"writes {argument}")

    def remove(self, ask, argument):
        return Proposal(changes={argument: None}, note=f"removes {argument}")

    def link(self, ask, argument):
        return Proposal(tree=(*ask.tree.entries(), Entry(b"link", "symlink", data=argument.encode())), note="link")

    def none(self, ask, argument):
        return None

    def fail(self, ask, argument):
        raise AgentError("the model said nothing usable")


class Nosy:
    """Writes down every attempt it is shown, in its note."""

    name = "nosy"

    def __init__(self, config):
        pass

    async def propose(self, ask):
        seen = ",".join(f"{a.ticket}:{a.verdict}:{a.reason}" for a in ask.history)
        source = ask.tree["train.py"].data.decode().replace("VALUE = ", "VALUE = 1 + ")
        return Proposal(changes={"train.py": source.encode()}, note=seen)


class Slow:
    """Never answers."""

    name = "slow"

    def __init__(self, config):
        pass

    async def propose(self, ask):
        await anyio.sleep_forever()


class Liner:
    """Writes every third line of `agent.txt` or another, so that two such edits go together unless they meet."""

    name = "liner"

    def __init__(self, config):
        self.claim = config.get("claim", False)

    async def propose(self, ask):
        lines = ask.tree["agent.txt"].data.decode().split("\n")
        lines[3 * int(ask.rng.integers(1 + len(lines) // 3)) % len(lines)] = f"made-by-ticket-{ask.ticket}"
        memo = {"merge": ["v0", "v0"]} if self.claim else {}
        return Proposal(changes={"agent.txt": "\n".join(lines).encode()}, note="a line", memo=memo)


class Twins:
    """Three tickets in a row propose the very same child, with a claim."""

    name = "twins"

    def __init__(self, config):
        pass

    async def propose(self, ask):
        memo = {"hypothesis": {"claim": "it solves the first", "solves": ["visible-00"]}}
        return Proposal(changes={"skill.txt": f"0.4 0.0 {(ask.ticket - 1) // 3}\n".encode()}, memo=memo)


class Sources:
    """Ticket n writes the n-th of `sources` as `train.py`."""

    name = "sources"

    def __init__(self, config):
        self.sources = config["sources"]

    async def propose(self, ask):
        return Proposal(changes={"train.py": self.sources[ask.ticket - 1].encode()}, note=f"source {ask.ticket}")


class Versions:
    """Ticket n writes the n-th of `versions` to `path`; an empty one removes it."""

    name = "versions"

    def __init__(self, config):
        self.path, self.versions = config["path"], config["versions"]

    async def propose(self, ask):
        text = self.versions[ask.ticket - 1]
        return Proposal(changes={self.path: text.encode() if text else None}, note=f"version {ask.ticket}")
