"""One edit: an agent's entry point runs in a box and changes the tree it finds in /out.

The agent's own code is in /work, the problem in /data/problem.md, and in /result it may say what it expects of its
change. What comes back is data for the door, like everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.box.base import DATA, OUT, RESULT, WORK, Boxes, BoxSpec, Command
from harness.errors import ExecTimeoutError, LimitError
from harness.records import Status
from harness.tree import Entry, File, Tree
from harness.untrusted import clean

PROBLEM = "problem.md"
CLAIM = "hypothesis.json"
_MAX_TREE = 64 * 2**20
_MAX_CLAIM = 64 * 1024


@dataclass(frozen=True, slots=True)
class Order:
    """What to run: the command, its deadline and its environment."""

    argv: tuple[str, ...]
    deadline_s: float
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Edited:
    """How it ended, the tree as /out holds it, and the claim it wrote, if any, as untrusted bytes."""

    status: Status
    detail: str = ""
    entries: tuple[Entry, ...] = ()
    claim: bytes = b""
    wall_s: float = 0.0
    cpu_s: float = 0.0


async def edit(
    boxes: Boxes,
    spec: BoxSpec,
    order: Order,
    *,
    editor: Tree,
    tree: Tree,
    problem: str,
) -> Edited:
    """Let `editor`'s code change `tree` after `problem`. Failures of the code are told; raises InfraError."""
    told = Tree({PROBLEM: File(problem.encode())})
    async with boxes.open(spec) as box:
        await box.put(told.entries(), DATA, read_only=True)
        await box.put(editor.entries(), WORK)
        await box.put(tree.entries(), OUT)
        if spec.link is not None:
            await box.attach(spec.link)
        try:
            done = await box.exec(Command(order.argv, order.deadline_s, WORK, order.env))
            if done.exit_code != 0:
                said = clean((done.stderr.strip() or done.stdout.strip())[-2000:], 1500)
                detail = f"exit code {done.exit_code}: {said}"
                return Edited(Status.AGENT_ERROR, detail, wall_s=done.wall_s, cpu_s=done.cpu_s)
            after = await box.get(OUT, max_bytes=_MAX_TREE)
        except ExecTimeoutError as error:
            partial = error.partial
            return Edited(Status.TIMEOUT, error.message, wall_s=partial.wall_s, cpu_s=partial.cpu_s)
        except LimitError as error:
            partial = error.partial
            return Edited(Status.AGENT_ERROR, error.message, wall_s=partial.wall_s, cpu_s=partial.cpu_s)
        try:
            claims = await box.get(RESULT, max_bytes=_MAX_CLAIM)
        except LimitError:
            claims = []
    claim = next((one.data for one in claims if one.kind == "file" and one.path == CLAIM.encode()), b"")
    return Edited(Status.OK, "", tuple(after), claim, done.wall_s, done.cpu_s)
