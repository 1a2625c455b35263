"""What many rollouts leave behind, for a back end's tests and for `benchmarks/boxes.py --leak`: descriptors, threads,
processes, control groups, temp folders, memory of this process.
"""

from __future__ import annotations

import gc
import os
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import anyio

from harness.box import cgroup, host, reaper
from harness.box.base import OUT, WORK, Boxes, BoxSpec, Command
from harness.tree import Entry

JOB = Command(("python", "-c", "import os; os.fork() or os.setsid(); open('/out/x', 'w').write('x' * 9999)"), 60)
EACH = 20  # rollouts of one box's life
WORKERS = 2


@dataclass(frozen=True, slots=True)
class Held:
    """What is open, running or lying about at one moment. `memory_kb` is what this process alone holds."""

    descriptors: int
    threads: int
    processes: int
    groups: int
    folders: int
    memory_kb: int

    def no_more_than(self, other: Held) -> bool:
        """Whether nothing but memory is more than it was."""
        return (
            self.descriptors <= other.descriptors
            and self.threads <= other.threads
            and self.processes <= other.processes
            and self.groups <= other.groups
            and self.folders <= other.folders
        )


def held() -> Held:
    """Now, after a collection."""
    gc.collect()
    ours = host.token()
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    temporary = Path(tempfile.gettempdir())
    return Held(
        descriptors=len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - quick, and nothing stays open
        threads=threading.active_count(),
        processes=sum(token == ours for _, token in reaper.marked()),
        groups=sum(token == ours for _, token in cgroup.marked()),
        folders=sum(ours in path.name for path in temporary.glob(f"{reaper.FOLDER_PREFIX}*")),
        memory_kb=next(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty:")),
    )


async def rollouts(boxes: Boxes, count: int, *, owner: str = "leaks") -> None:
    """`count` rollouts: files in, a command that leaves a daemon, files out, a reset; a new box every `EACH`, every
    other one with a warm Python.
    """

    async def some(spec: BoxSpec, number: int) -> None:
        for start in range(0, number, EACH):
            async with boxes.open(spec) as box:
                for _ in range(min(EACH, number - start)):
                    await box.put([Entry(b"f", "file", data=bytes(9999))], WORK)
                    done = await box.exec(JOB)
                    assert done.exit_code == 0, done.stderr
                    assert len(await box.get(OUT, max_bytes=20_000)) == 1
                    await box.reset()

    async with anyio.create_task_group() as group:
        for worker in range(WORKERS):
            group.start_soon(some, BoxSpec(owner=owner, warm=() if worker % 2 else None), count // WORKERS)


async def settled(before: Held, *, seconds: float = 30.0) -> Held:
    """What is held once what may go has gone."""
    with anyio.move_on_after(seconds):
        while not held().no_more_than(before):  # noqa: ASYNC110 - the kernel tells nobody
            await anyio.sleep(0.1)
    return held()
