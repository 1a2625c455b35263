"""`benchmarks/boxes.py --leak COUNT`: what so many rollouts in each kind of box leave behind."""

from __future__ import annotations

from contextlib import closing
from dataclasses import fields

from harness.box import engine
from harness.box.docker import DockerBoxes, available
from harness.box.embedded import EmbeddedBoxes
from harness.box.pool import Pool
from harness.testing.leaks import EACH, Held, held, rollouts, settled


async def main(count, image):
    await _one("embedded", EmbeddedBoxes, count)
    if not available(image):
        print(f"docker: not here (no engine, or no image {image})")
        return
    await _one("docker", lambda: DockerBoxes(image), count)
    with closing(engine.connect()) as api:
        left = api.containers(all=True, filters={"label": "strop.owner=leaks"})
    print(f"docker: {len(left)} containers left")


async def _one(name, make, count):
    await _run(make, 2 * EACH)  # imports, caches and threads that stay
    before = held()
    await _run(make, count)
    after = await settled(before)
    told = ", ".join(f"{f.name} {getattr(before, f.name)} -> {getattr(after, f.name)}" for f in fields(Held))
    print(f"{name}, {count} rollouts: {told}", flush=True)


async def _run(make, count):
    boxes = make()  # gone at the end, and its connections to an engine with it
    await boxes.prepare()
    async with Pool(boxes) as pool:
        await rollouts(pool, count)
