"""Process boxes: NO ISOLATION. The same worker over a temp folder, for machines and tests where nothing else works.

Asked for by name only. A command runs as the user, sees the whole machine and its network, and can do what the user
can. Timeouts, output caps and clean-up of what it started work as in a real box; memory and process counts are
watched; disk and cpu are not limited.

The box's folders lie in a temp folder: a leading `/work`, `/data`, `/out`, `/eval`, `/labels`, `/result` or `/tmp` of
a command's argument, working folder or environment value is rewritten to where that folder really is. Programs find
them in STROP_WORK, STROP_DATA and so on; a path spelled inside a program is not rewritten.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Literal

import anyio
from anyio.abc import Process

from harness.box import host
from harness.box.base import FOLDERS, TMP, BoxSpec
from harness.box.bubblewrap import LABEL
from harness.box.client import Client
from harness.box.live import LiveBox, Place, box_env, unbroken, worker_config
from harness.box.prefix import Python, current_python
from harness.box.reaper import ARGUMENT_PREFIX, FOLDER_PREFIX, HOST_PREFIX, reap, remove_tree, sweep
from harness.errors import InfraError
from harness.resources import resource

START_S = 20.0


class ProcessBoxes:
    """Opens boxes that isolate nothing. Say so wherever their results are shown."""

    name: Literal["process"] = "process"
    isolated = False

    def __init__(self) -> None:
        self._python = current_python()

    async def prepare(self) -> None:
        """Nothing to prove: it needs a Python and a temp folder, and promises nothing."""
        await anyio.to_thread.run_sync(sweep)

    def open(self, spec: BoxSpec) -> AbstractAsyncContextManager[LiveBox]:
        return self._open(spec)

    async def reap(self, owners: Sequence[str]) -> int:
        return await anyio.to_thread.run_sync(reap, owners)

    def enforcement(self) -> dict[str, str]:
        """How each limit is held here."""
        return {"isolation": "no isolation", "memory": "watchdog", "pids": "watchdog", "cpu": "no", "disk": "no"}

    @asynccontextmanager
    async def _open(self, spec: BoxSpec) -> AsyncGenerator[LiveBox]:
        root = await unbroken(anyio.to_thread.run_sync(_folders, spec.owner))
        try:
            worker = str(resource("sandbox") / "guest" / "worker.py")
            command = [sys.executable, "-I", "-S", "-E", worker, ARGUMENT_PREFIX + spec.owner]
            command.append(HOST_PREFIX + host.token())
            process = await unbroken(anyio.open_process(command, env={}, cwd=root, start_new_session=True))
            box: LiveBox | None = None
            try:
                box = await _greet(process, root, spec, self._python)
                yield box
            finally:
                with anyio.CancelScope(shield=True):
                    await (box.close() if box is not None else _end(process))
                    await process.aclose()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(remove_tree, root)


def _folders(owner: str) -> Path:
    root = Path(tempfile.gettempdir()).resolve() / f"{FOLDER_PREFIX}{owner}-{host.token()}-{secrets.token_hex(4)}"
    root.mkdir(mode=0o700)
    for folder in (*FOLDERS, TMP, "/home"):
        (root / folder[1:]).mkdir()
    return root


async def _greet(process: Process, root: Path, spec: BoxSpec, python: Python) -> LiveBox:
    assert process.stdin is not None
    assert process.stdout is not None
    client = Client(process.stdin, process.stdout)
    places = [str(root / folder[1:]) for folder in (*FOLDERS, TMP)]
    # A process limit of the kernel would count everything the user runs, so pids are watched instead.
    config = worker_config(spec.limits, places=places, keep=(), disk=False, nproc=False)
    try:
        with anyio.fail_after(START_S):
            await client.greet(hardened=False)
            await client.configure(config)
    except TimeoutError:
        raise InfraError(f"a process box did not start within {START_S:g} s") from None
    inside = {mount.at: str(mount.source) for mount in spec.mounts}
    inside.update(zip((*FOLDERS, TMP), places, strict=True))
    env = {
        **box_env(python, spec.limits, home=str(root / "home")),
        LABEL: spec.owner,
        host.LABEL: host.token(),
        "TMPDIR": str(root / TMP[1:]),
        **{f"STROP_{folder[1:].upper()}": str(root / folder[1:]) for folder in FOLDERS},
    }
    place = Place(env, python.executable, dict(sorted(inside.items(), key=lambda pair: -len(pair[0]))))

    async def end() -> None:
        await _end(process)

    return LiveBox(client, limits=spec.limits, place=place, end=end)


async def _end(process: Process) -> None:
    """The worker sweeps its descendants when the wire closes; one that does not within 5 s is killed."""
    if process.returncode is not None:
        return
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            await stream.aclose()
    with anyio.move_on_after(5):
        await process.wait()
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    await process.wait()
