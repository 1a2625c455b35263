"""The peers of `benchmarks/boxes.py`, each doing the same trivial job its own way, in a session that stays.

A peer is tried once before it is measured; one that cannot run here is listed with what it said. The docker ones run in
an image that holds them, which no registry has; where the `bench-boxes` extra is installed, make it of this host:

    strop image import --from-host --tag strop-bench

The docker peers keep what a job leaves, and SWE-ReX's workers share one container; ours empty a box after every job.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread

from harness.box.docker import available

Run = Callable[[], Awaitable[None]]
ALONE_S = 90.0  # for a peer's first job, its start included
PYTHON = [sys.executable, "-c", "pass"]


@asynccontextmanager
async def inspect_local(image) -> AsyncIterator[Run]:
    """No isolation: a subprocess in a temp folder."""
    from inspect_ai.util._sandbox.local import LocalSandboxEnvironment  # noqa: PLC0415 - peers may be missing

    box = LocalSandboxEnvironment()

    async def run():
        _well((await box.exec(PYTHON)).success)

    yield run


@asynccontextmanager
async def inspect_docker(image) -> AsyncIterator[Run]:
    """A compose project for every sample, `docker compose exec` in it."""
    from inspect_ai.util import ComposeConfig, ComposeService  # noqa: PLC0415
    from inspect_ai.util._sandbox.docker.docker import DockerSandboxEnvironment as Docker  # noqa: PLC0415
    from inspect_ai.util._sandbox.docker.prereqs import validate_prereqs  # noqa: PLC0415

    await validate_prereqs()
    service = ComposeService(image=image, command="sleep infinity", init=True, network_mode="none")
    config = ComposeConfig(services={"default": service})
    await Docker.task_init("bench", config)
    boxes = await Docker.sample_init("bench", config, {})

    async def run():
        _well((await boxes["default"].exec(["python3", "-c", "pass"])).success)

    try:
        yield run
    finally:
        await Docker.sample_cleanup("bench", config, boxes, False)
        await Docker.task_cleanup("bench", config, True)


@asynccontextmanager
async def swerex_local(image) -> AsyncIterator[Run]:
    """No isolation: its runtime in this process."""
    from swerex.deployment.local import LocalDeployment  # noqa: PLC0415

    async with _deployed(LocalDeployment(), PYTHON) as run:
        yield run


@asynccontextmanager
async def swerex_docker(image) -> AsyncIterator[Run]:
    """A container with its server in it, spoken to over HTTP; the host's network, for an engine without a bridge."""
    from swerex.deployment.config import DockerDeploymentConfig  # noqa: PLC0415
    from swerex.deployment.docker import DockerDeployment  # noqa: PLC0415

    wanted = DockerDeploymentConfig(
        image=image, pull="never", port=8000, docker_args=["--network", "host"], startup_timeout=ALONE_S
    )
    async with _deployed(DockerDeployment.from_config(wanted), ["python3", "-c", "pass"]) as run:
        yield run


@asynccontextmanager
async def _deployed(deployment, words) -> AsyncIterator[Run]:
    from swerex.runtime.abstract import Command  # noqa: PLC0415

    await deployment.start()

    async def run():
        _well((await deployment.runtime.execute(Command(command=words))).exit_code == 0)

    try:
        yield run
    finally:
        await deployment.stop()


@asynccontextmanager
async def llm_bubblewrap(image) -> AsyncIterator[Run]:
    """A bubblewrap for every run, in a workspace that stays."""
    async with _session(backend="bubblewrap", lang="python", skip_environment_setup=True) as run:
        yield run


@asynccontextmanager
async def llm_docker(image) -> AsyncIterator[Run]:
    """A container that stays: the code is copied in as a tar, then `docker exec`."""
    settings = {"network_mode": "none", "command": ["sleep", "infinity"]}
    options = {"runtime_configs": settings, "skip_environment_setup": True}
    async with _session(backend="docker", lang="python", image=image, **options) as run:
        yield run


@asynccontextmanager
async def _session(**options) -> AsyncIterator[Run]:
    from llm_sandbox import SandboxSession  # noqa: PLC0415

    session = SandboxSession(**options)
    await anyio.to_thread.run_sync(session.open)

    async def run():
        _well((await anyio.to_thread.run_sync(session.run, "pass")).exit_code == 0)

    try:
        yield run
    finally:
        await anyio.to_thread.run_sync(session.close)


ALL = {
    "inspect local": inspect_local,
    "inspect docker": inspect_docker,
    "swe-rex local": swerex_local,
    "swe-rex docker": swerex_docker,
    "llm-sb bwrap": llm_bubblewrap,
    "llm-sb docker": llm_docker,
}
IN_IMAGE = {"inspect docker", "swe-rex docker", "llm-sb docker"}
SLOW = {"inspect docker", "llm-sb docker"}
ONE_SESSION = {"swe-rex docker"}  # its server has one port on the host's network


def _well(yes: bool) -> None:
    if not yes:
        raise RuntimeError("it could not run a Python that does nothing")


async def usable(image: str, only: list[str]) -> tuple[dict[str, Callable], dict[str, str]]:
    """({name: way} of the peers that ran a job just now, {name: what the others said})."""
    ways, reasons = {}, {}
    logging.disable(logging.CRITICAL)  # what a peer has to say is its error; SWE-ReX logs a page of it besides
    for name, opened in ALL.items():
        if only and name not in only:
            continue
        if name in IN_IMAGE and not available(image):
            reasons[name] = f"no engine, or no image {image}: strop image import --from-host --tag {image}"
            continue
        try:
            with anyio.fail_after(ALONE_S):
                async with opened(image) as run:
                    await run()
        except TimeoutError:
            reasons[name] = f"no answer in {ALONE_S:g} s"
        except Exception as error:  # a peer may fail in any way of its own
            reasons[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        else:
            ways[name] = _way(opened, image, together=name in ONE_SESSION)
    return ways, reasons


def _way(opened, image, *, together):
    """A way of `benchmarks/boxes.py`: (seconds, CPU seconds) of `count` jobs for each of `workers`; the opening of
    sessions is not counted. `together`: the workers share one session.
    """

    async def way(count, workers, cpu_s):
        spent = []

        async def work(run, share):
            started, used = time.perf_counter(), cpu_s()
            async with anyio.create_task_group() as group:
                for _ in range(share):
                    group.start_soon(_repeat, run, count)
            spent.append((time.perf_counter() - started, cpu_s() - used))

        async def alone():
            async with opened(image) as run:
                await work(run, 1)

        if together:
            async with opened(image) as run:
                await work(run, workers)
        else:
            async with anyio.create_task_group() as group:
                for _ in range(workers):
                    group.start_soon(alone)
        return max(took for took, _ in spent), sum(cpu for _, cpu in spent) / len(spent)

    return way


async def _repeat(run, count):
    for _ in range(count):
        await run()
