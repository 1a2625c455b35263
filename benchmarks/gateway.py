"""What does the gateway cost? Beside litellm's proxy, in one run, in two ways:

    pip install 'litellm[proxy]' && python benchmarks/gateway.py [--mode paced|burst|both] [--streams 1,16,64]

paced: the upstream answers as a real model does, 100 ms to the first token, then 20 more, 20 ms apart, and so many
streams are under way at once, evenly staggered. Told: how much later the first byte and the last one come than straight
from the upstream. This is what a user of a model waits.

burst: the upstream says all it has at once, in under a millisecond, and so many callers ask again as soon as they have
their answer. Told: requests a second, and the latency it adds, which at 16 and 64 is the queue in front of the
machine's cores, since the next request is always waiting. This is how much the gateway can carry.

The upstream, the gateway (with a durable journal: each call is on disk before it is sent and before it is answered) and
litellm run in processes of their own; all are asked by the same client, which keeps its connections. Added is the
difference of medians (and of 99th percentiles) to asking the upstream.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import numpy as np

FIRST_S, NEXT_S, TOKENS = 0.1, 0.02, 21
SERVE = """
import sys, anyio
from pathlib import Path
from harness.archive.sqlite import SqliteArchive
from harness.model.base import Caller
from harness.model.gateway import open_gateway
from harness.model.server import serve
from harness.policy.schema import BudgetPolicy, ModelPolicy

async def main(folder, url):
    archive = await SqliteArchive.create(Path(folder))
    models = {"m": ModelPolicy(base_url=url, concurrency=256)}
    budget = BudgetPolicy(tokens_in=10**12)
    async with open_gateway(models, budget, archive.journal()) as gateway, serve(gateway) as server:
        print(server.url, server.key(Caller(1)), flush=True)
        await anyio.sleep_forever()
anyio.run(main, *sys.argv[1:])
"""


def paced():
    words = [sys.executable, str(Path(__file__).with_name("paced.py")), str(FIRST_S), str(NEXT_S), str(TOKENS)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def upstream():
    words = [sys.executable, "-m", "harness.testing.scripted_model", "0", "one two three four five six seven eight"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def gateway(folder, url):
    process = subprocess.Popen([sys.executable, "-c", SERVE, f"{folder}/run", url], stdout=subprocess.PIPE, text=True)
    root, key = process.stdout.readline().split()
    return process, f"{root}/v1", key


def litellm(folder, url, port=18_431):
    program = shutil.which("litellm", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        return None
    config = Path(folder) / "litellm.yaml"
    config.write_text(
        json.dumps(
            {
                "model_list": [
                    {"model_name": "m", "litellm_params": {"model": "openai/m", "api_base": url, "api_key": "k"}}
                ]
            }
        )
    )
    environment = {
        **os.environ,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }
    log = (Path(folder) / "litellm.log").open("w")
    process = subprocess.Popen(
        [program, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)],
        stdout=log,
        stderr=log,
        env=environment,
    )
    for _ in range(180):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=1)
        except OSError:
            if process.poll() is not None:
                print((Path(folder) / "litellm.log").read_text()[-800:], file=sys.stderr)
                return None
            time.sleep(0.5)
        else:
            return process, f"http://127.0.0.1:{port}/v1", "k"
    process.kill()
    return None


async def follow(url, key, streams, seconds, salt):
    """(ms to the first byte, ms to the last) of every stream, `streams` at once for `seconds`."""
    where, taken = urlsplit(url), []
    whole_s = FIRST_S + NEXT_S * (TOKENS - 1)
    ends = time.perf_counter() + max(seconds, whole_s)

    async def worker(place):
        await asyncio.sleep(whole_s * place / streams)
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        number = 0
        while number == 0 or time.perf_counter() < ends:
            number += 1
            said = [{"role": "user", "content": f"{salt} {place} {number}"}]
            body = json.dumps({"model": "m", "messages": said, "stream": True})
            head = f"POST {where.path}/chat/completions HTTP/1.1\r\nhost: {where.netloc}\r\n"
            head += f"authorization: Bearer {key}\r\ncontent-type: application/json\r\n"
            head += f"content-length: {len(body)}\r\n\r\n"
            started = time.perf_counter()
            writer.write((head + body).encode())
            told, first = b"", 0.0
            while not told.endswith(b"\r\n0\r\n\r\n"):
                part = await reader.read(1 << 16)
                told += part
                if not first and b"data:" in told:
                    first = time.perf_counter()
                if not part or not told.startswith(b"HTTP/1.1 200"):
                    raise RuntimeError(told[:300])
            taken.append((first - started, time.perf_counter() - started))
            if told.count(b'word"') != TOKENS or b"[DONE]" not in told:
                raise RuntimeError(told[-600:])
        writer.close()

    await asyncio.gather(*(worker(place) for place in range(streams)))
    return np.array(taken) * 1000


async def measure(url, key, streams, requests, salt):
    limits = httpx2.Limits(max_connections=streams, max_keepalive_connections=streams)
    took = []
    async with httpx2.AsyncClient(
        timeout=120, limits=limits, trust_env=False, headers={"authorization": f"Bearer {key}"}
    ) as client:
        numbers = iter(range(requests))

        async def worker():
            for number in numbers:
                said = [{"role": "user", "content": f"{salt} {number}"}]
                started = time.perf_counter()
                async with client.stream(
                    "POST", f"{url}/chat/completions", json={"model": "m", "messages": said, "stream": True}
                ) as reply:
                    told = b"".join([part async for part in reply.aiter_raw()])
                if reply.status_code != 200 or b"[DONE]" not in told:
                    raise RuntimeError(told[:300])
                took.append(time.perf_counter() - started)

        started = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(streams)))
        return np.array(took) * 1000, requests / (time.perf_counter() - started)


def told(name, kind, took, floor):
    p50, p99 = np.percentile(took, [50, 99])
    told = f"{kind} p50 {p50:7.2f} ms  p99 {p99:7.2f} ms"
    return told + ("" if name == "upstream" else f"  added p50 {p50 - floor[0]:6.2f}  p99 {p99 - floor[1]:7.2f} ms")


def compare_paced(targets, levels, seconds):
    for streams in levels:
        floor = None
        for name, (where, secret) in targets.items():
            asyncio.run(follow(where, secret, streams, 0, f"warm {name} {streams}"))
            took = asyncio.run(follow(where, secret, streams, seconds, f"{name} {streams}"))
            floor = floor or [np.percentile(column, [50, 99]) for column in took.T]
            first, last = (told(name, kind, took[:, at], floor[at]) for at, kind in enumerate(("first byte", "last")))
            print(f"paced {streams:3} at once  {name:9} {first}   {last}  ({len(took)} streams)", flush=True)


def compare_burst(targets, levels, requests):
    for streams in levels:
        floor = None
        for name, (where, secret) in targets.items():
            asyncio.run(measure(where, secret, streams, min(50, requests), f"warm {name} {streams}"))
            took, rate = asyncio.run(measure(where, secret, streams, requests, f"{name} {streams}"))
            floor = np.percentile(took, [50, 99]) if floor is None else floor
            line = told(name, f"{rate:7.1f}/s ", took, floor)
            print(f"burst {streams:3} at once  {name:9} {line}", flush=True)


def run(start, compare):
    with tempfile.TemporaryDirectory() as folder:
        model, url = start()
        ours, our_url, key = gateway(folder, url)
        theirs = litellm(folder, url)
        targets = {"upstream": (url, "none"), "strop": (our_url, key)} | ({"litellm": theirs[1:]} if theirs else {})
        try:
            compare(targets)
        finally:
            for process in (model, ours, *([theirs[0]] if theirs else [])):
                process.kill()
                process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", default="paced", choices=["paced", "burst", "both"])
    parser.add_argument("--streams", default="1,16,64")
    parser.add_argument("--seconds", type=float, default=7, help="of each paced line")
    parser.add_argument("--requests", type=int, default=300, help="of each burst line")
    given = parser.parse_args()
    levels = [int(level) for level in given.streams.split(",")]
    if given.mode != "burst":
        run(paced, lambda targets: compare_paced(targets, levels, given.seconds))
    if given.mode != "paced":
        run(upstream, lambda targets: compare_burst(targets, levels, given.requests))


if __name__ == "__main__":
    main()
