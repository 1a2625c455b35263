"""What a box costs: rollouts per second of a trivial Python program, as ratios of one run.

    strop image import --from-host --tag strop-bench
    python benchmarks/boxes.py [COUNT] [--at 1,2,4,8] [--image strop-bench] [--leak COUNT] [--only plain,docker,...]

plain: a fresh subprocess, no isolation. embedded, docker: one box a worker, kept for a round (its opening not counted),
exec + reset a rollout; warm: the same with a warm Python. fresh: an embedded box for every rollout. create: a container
for every rollout, through the docker client. docker exec: into a container that stays. The peers are in peers.py; one
that cannot run here is listed with what it said. All start the Python that runs this, in docker its copy, which the
first command makes, from the same environment; another one there is said. The columns take turns, so that a busy
machine slows all of them; the load is printed beside every row. `--leak` runs COUNT rollouts in each kind of box
instead, and says what they left.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace

import anyio
import anyio.to_thread
import leaks
import peers

from harness.box import bytecode, engine
from harness.box.base import BoxSpec, Command
from harness.box.docker import DockerBoxes, available
from harness.box.embedded import EmbeddedBoxes

COMMAND = Command(("python", "-c", "pass"), deadline_s=60)
SPEC = BoxSpec(owner="benchmark")
ROUNDS = 3
SLOW = 15  # how many times fewer rollouts the ways that take a tenth of a second get
WARM = replace(SPEC, warm=())
PEER_WAYS = set()


async def plain(count):
    for _ in range(count):
        await anyio.run_process([sys.executable, "-c", "pass"], stdin=subprocess.DEVNULL)


def kept(boxes, spec=SPEC):
    async def way(count):
        async with boxes.open(spec) as box:
            started, used = time.perf_counter(), cpu_s()
            for _ in range(count):
                await box.exec(COMMAND)
                await box.reset()
            return time.perf_counter() - started, cpu_s() - used

    return way


def fresh(boxes):
    async def way(count):
        for _ in range(count):
            async with boxes.open(SPEC) as box:
                await box.exec(COMMAND)

    return way


def created(api, image):
    def once():
        options = api.create_host_config(network_mode="none", read_only=True, cap_drop=["ALL"])
        made = api.create_container(image, ["python3", "-c", "pass"], host_config=options)["Id"]
        api.start(made)
        api.wait(made)
        api.remove_container(made, force=True)

    async def way(count):
        for _ in range(count):
            await anyio.to_thread.run_sync(once)

    return way


def executed(api, image):
    def begin():
        options = api.create_host_config(network_mode="none", init=True)
        made = api.create_container(image, ["sleep", "1000"], host_config=options)["Id"]
        api.start(made)
        return made

    def once(container):
        api.exec_start(api.exec_create(container, ["python3", "-c", "pass"])["Id"])

    async def way(count):
        container = await anyio.to_thread.run_sync(begin)
        try:
            started, used = time.perf_counter(), cpu_s()
            for _ in range(count):
                await anyio.to_thread.run_sync(once, container)
            return time.perf_counter() - started, cpu_s() - used
        finally:
            await anyio.to_thread.run_sync(lambda: api.remove_container(container, force=True))

    return way


def cpu_s():
    """CPU seconds of this process and of every child it has waited for, boxes' insides included."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


async def measure(way, workers, count):
    """(rollouts per second, CPU milliseconds per rollout), without the opening of boxes that are kept."""
    share = max(1, count // workers)
    done = share * workers
    if way in PEER_WAYS:
        seconds, burnt = await way(share, workers, cpu_s)
        return done / seconds, burnt / done * 1000
    spent = []

    async def one():
        spent.append(await way(share))

    started, used = time.perf_counter(), cpu_s()
    async with anyio.create_task_group() as group:
        for _ in range(workers):
            group.start_soon(one)
    seconds, burnt = time.perf_counter() - started, cpu_s() - used
    if spent[0] is not None:
        seconds = max(took for took, _ in spent)
    return done / seconds, burnt / done * 1000


async def main(count, levels, image, only):
    embedded = EmbeddedBoxes()
    await embedded.prepare()
    ways = {
        "plain": (plain, 1),
        "embedded": (kept(embedded), 1),
        "warm embedded": (kept(embedded, WARM), 1),
        "fresh": (fresh(embedded), 4),
    }
    found, reasons = await peers.usable(image, only)
    for name, reason in reasons.items():
        print(f"{name}: not here: {reason}")
    PEER_WAYS.update(found.values())
    ways |= {name: (way, SLOW if name in peers.SLOW else 1) for name, way in found.items()}
    if not available(image):
        print(f"docker: not here (no engine, or no image {image})")
        await table(ways, count, levels, only)
        return
    docker = DockerBoxes(image)
    await docker.prepare()
    await compare(docker)
    with closing(engine.connect()) as api:
        ways["docker"] = (kept(docker), 1)
        ways["warm docker"] = (kept(docker, WARM), 1)
        ways["docker exec"] = (executed(api, image), SLOW)
        ways["create"] = (created(api, image), SLOW)
        await table(ways, count, levels, only)


async def compare(docker):
    """Say what makes a Python in the image start otherwise than the one here."""
    code = "import sys; print(sys.prefix, sys.version_info[:3])"
    async with docker.open(SPEC) as box:
        there = (await box.exec(Command(("python", "-c", code), deadline_s=60))).stdout.decode().strip()
    here = f"{sys.prefix} {sys.version_info[:3]}"
    if there != here:
        print(f"not the same: docker starts {there}, plain {here}: strop image import --from-host")
    slow = await bytecode.missing(docker)
    if slow:
        print(f"not the same: in docker {slow}")


async def table(ways, count, levels, only):
    """One row a way: at each concurrency the median rate, as a part of plain's, and CPU milliseconds a rollout."""
    ways = {name: way for name, way in ways.items() if not only or name in {"plain", *only}}
    cells = {name: [] for name in ways}
    for workers in levels:
        rounds = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, (way, slower) in ways.items():
                rounds[name].append(await measure(way, workers, max(workers, count // ROUNDS // slower)))
        rates = {name: statistics.median(rate for rate, _ in done) for name, done in rounds.items()}
        costs = {name: statistics.median(cost for _, cost in done) for name, done in rounds.items()}
        for name in ways:
            cells[name].append(f"{rates[name]:.1f} ({rates[name] / rates['plain']:.2f}) {costs[name]:.1f}")
        print(f"at {workers}: done, load {os.getloadavg()[0]:.1f}", flush=True)
    print("rollouts/s (as a part of plain's) CPU ms a rollout, where its processes are ours")
    print(" " * 15 + "".join(f"{f'at {workers}':>22}" for workers in levels))
    for name, found in cells.items():
        print(f"{name:<15}" + "".join(f"{cell:>22}" for cell in found), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=450)
    parser.add_argument("--at", default="1,2,4,8")
    parser.add_argument("--image", default="strop-bench")
    parser.add_argument("--leak", type=int, default=0)
    parser.add_argument("--only", default="", help="these columns, and plain")
    given = parser.parse_args()
    if given.leak:
        anyio.run(leaks.main, given.leak, given.image)
    else:
        only = [name for name in given.only.split(",") if name]
        levels = [int(level) for level in given.at.split(",")]
        anyio.run(main, given.count, levels, given.image, only)
