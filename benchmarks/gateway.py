"""What does the gateway cost? Latency it adds and requests a second, beside litellm's proxy, against one upstream.

    pip install 'litellm[proxy]' && python benchmarks/gateway.py [--streams 1,16,64] [--requests 300]

The upstream is a scripted model in a process of its own; the gateway (with a durable journal, each call on disk before
it is sent and before it is answered) and litellm run in processes of their own too. All are asked by the same client:
streams of chat completions, so many at once. Added is the difference of medians (and of 99th percentiles) to asking the
upstream.
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

import httpx2
import numpy as np

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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", default="1,16,64")
    parser.add_argument("--requests", type=int, default=300)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model, url = upstream()
        ours, our_url, key = gateway(folder, url)
        theirs = litellm(folder, url)
        targets = {"upstream": (url, "none"), "strop": (our_url, key)} | ({"litellm": theirs[1:]} if theirs else {})
        try:
            for streams in map(int, given.streams.split(",")):
                floor = None
                for name, (where, secret) in targets.items():
                    asyncio.run(measure(where, secret, streams, min(50, given.requests), f"warm {name} {streams}"))
                    took, rate = asyncio.run(measure(where, secret, streams, given.requests, f"{name} {streams}"))
                    p50, p99 = np.percentile(took, [50, 99])
                    floor = floor or (p50, p99)
                    added = (
                        f"added p50 {p50 - floor[0]:6.2f} ms, p99 {p99 - floor[1]:7.2f} ms"
                        if name != "upstream"
                        else ""
                    )
                    print(
                        f"{streams:3} at once  {name:9} p50 {p50:7.2f} ms  p99 {p99:7.2f} ms  {rate:7.1f}/s  {added}",
                        flush=True,
                    )
        finally:
            for process in (model, ours, *([theirs[0]] if theirs else [])):
                process.kill()
                process.wait()


if __name__ == "__main__":
    main()
