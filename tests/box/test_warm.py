"""A warm Python is the Python that it stands for: the same programs must end the same way in both."""

from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from support.engine import image, needs_docker
from support.toy import make_toy

from harness import open_run
from harness.box.base import WORK, BoxSpec, Command
from harness.box.docker import DockerBoxes
from harness.box.embedded import EmbeddedBoxes
from harness.box.pool import Pool
from harness.box.selfcheck import selfcheck
from harness.errors import InfraError, InputError
from harness.events import TicketDecided
from harness.policy.load import override
from harness.policy.schema import Policy
from harness.testing.box_contract import LIMITS, BoxContract, python
from harness.tree import Entry

BACKS = [
    pytest.param(EmbeddedBoxes, id="embedded"),
    pytest.param(lambda: DockerBoxes(image() or "none"), id="docker", marks=needs_docker()),
]


class Warm(BoxContract):
    @asynccontextmanager
    async def live(self, limits=LIMITS):
        spec = BoxSpec(owner="warm", limits=limits, warm=("json", "subprocess"))
        async with self.boxes().open(spec) as box:
            yield box


class TestWarmEmbeddedBoxes(Warm):
    def boxes(self):
        return EmbeddedBoxes()


@needs_docker()
class TestWarmDockerBoxes(Warm):
    def boxes(self):
        return DockerBoxes(image() or "none")


FILES = {
    "show.py": """
import os, sys, __main__
import files, run, serve
print(sys.argv, sys.path, __name__, __file__, __spec__, sys.flags, sys.executable, os.getcwd(), os.getppid() == 1)
print(sorted(set(vars()) - {"files", "run", "serve"}), __main__.__dict__ is globals(), files.X, run.X, serve.X)
print(sorted(os.environ.items()), os.environb[b"LANG"], sys.dont_write_bytecode, hash("x"), type(__loader__).__name__)
print(sys.stdin.read(), sys.stdout.encoding, sys.stdout.errors, sys.stdin.errors, sys.stdout.line_buffering)
print(sys.orig_argv)
print(sorted(os.listdir("/proc/self/fd"))[:3], os.sched_getaffinity(0) != set(), os.getpgrp() == os.getpid())
import signal
print([(s, signal.getsignal(s)) for s in sorted(signal.valid_signals()) if signal.getsignal(s) != signal.SIG_DFL])
print(sys.gettrace(), sys.getrecursionlimit(), sorted({"frames", "sweep", "watch", "warm"} & set(sys.modules)))
""",
    "files.py": "X = 'mine'",
    "run.py": "X = 'mine'",
    "serve.py": "X = 'mine'",
    "deep/er.py": "import sys; print(sys.path[0], sys.argv)",
    "package/__init__.py": "",
    "package/__main__.py": "import sys; print(sys.argv, sys.path[0], __package__, __spec__.name)",
    "raises.py": "def f():\n    raise ValueError('mine')\n\nf()\n",
    "chained.py": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('x') from e\n",
    "syntax.py": "x = (\n",
    "exits.py": "import sys; print('out'); sys.exit('said')",
    "three.py": "raise SystemExit(3)",
    "big.py": "raise SystemExit(259)",
    "unflushed.py": "f = open('late.txt', 'w'); f.write('kept')",
    "late.py": "print(open('late.txt').read())",
    "atexit_.py": "import atexit; atexit.register(print, 'left'); print('body')",
    "threads.py": """
import threading, time
def late(): time.sleep(0.2); print("thread")
threading.Thread(target=late).start(); print("main")
""",
    "daemons.py": "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    "destroyed.py": """
import holding
class Noisy:
    def __init__(self, name): self.name = name
    def __del__(self): print("gone", self.name)
loud, _private = Noisy("public"), Noisy("private")
cycle = [Noisy("cycle")]; cycle.append(cycle)
holding.held = Noisy("module")
holding.file = open("held.txt", "w"); holding.file.write("kept")
""",
    "holding.py": "held = file = None",
    "held.py": "print(open('held.txt').read())",
    "full.py": "import sys; sys.stdout = open('/dev/full', 'w'); print('x')",
    "closed.py": "import sys; print('x'); sys.stdout.close(); sys.stderr.close()",
    "none.py": "import sys; sys.exit()",
    "true.py": "import sys; sys.exit(True)",
    "negative.py": "import sys; sys.exit(-1)",
    "forks.py": "import os, sys\nprint('once')\nsys.stdout.flush()\nif os.fork() == 0: sys.exit(0)\nos.wait()",
    "hard.py": "import os; print('lost'); os._exit(5)",
    "excepthook.py": "import sys; sys.excepthook = lambda *a: print('hooked', a[0].__name__); 1 / 0",
    "pickles.py": "import pickle\nclass C: pass\nprint(type(pickle.loads(pickle.dumps(C()))).__module__)",
    "pool.py": """
import multiprocessing
def double(x): return 2 * x
if __name__ == "__main__":
    for way in ("fork", "spawn"):
        try: pool = multiprocessing.get_context(way).Pool(2)
        except OSError as error: print(error.errno); continue
        with pool: print(pool.map(double, [1, 2]))
""",
    "child.py": "import subprocess, sys; print(subprocess.check_output([sys.executable, 'deep/er.py', 'a']))",
    "interrupt.py": "import os; print('x'); os.kill(os.getpid(), 2); import time; time.sleep(5)",
    "pipes.py": "import os\nr, w = os.pipe(); os.close(r)\ntry: os.write(w, b'x')\nexcept BrokenPipeError: print(1)",
    "asyncs.py": "import asyncio\nasync def main(): await asyncio.sleep(0.01); print('async')\nasyncio.run(main())",
}
PROGRAMS = [
    ("show.py", "a", "b c"),
    ("./show.py",),
    ("deep/er.py", "x"),
    ("/work/deep/er.py",),
    ("-m", "package", "x", "y"),
    ("-m", "deep.er"),
    ("-m", "nothing"),
    ("-c", "import sys; print(sys.argv, sys.path[0], '__file__' in vars()); import deep.er", "x"),
    ("-c", "1/0"),
    ("package", "z"),
    ("missing.py",),
    ("-u", "deep/er.py"),
    ("-X", "utf8", "-c", "import sys; print(sys.flags.utf8_mode)"),
    *((name,) for name in FILES if name not in {"show.py", "files.py", "run.py", "serve.py"}),
]
FEW = [words for words in PROGRAMS if words[0] in {"show.py", "-m", "-c", "raises.py", "unflushed.py", "late.py"}]
SETTINGS = [{"GIVEN": "x"}, {"PYTHONHASHSEED": "7"}, {"PYTHONPATH": "/work/deep"}, {"OMP_NUM_THREADS": "2"}]


async def ended(box, words, **named):
    done = await box.exec(Command(("python", *words), 20, **named))
    return done.exit_code, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("back", BACKS)
async def test_every_program_ends_as_it_does_without(back):
    boxes = back()
    files = [Entry(name.encode(), "file", data=text.encode()) for name, text in FILES.items()]
    async with boxes.open(BoxSpec(owner="plain")) as plain, boxes.open(BoxSpec(owner="warm", warm=())) as warm:
        for box in (plain, warm):
            await box.put(files, WORK)
        for words in PROGRAMS if boxes.name == "embedded" else FEW:
            assert await ended(warm, words, stdin=b"in") == await ended(plain, words, stdin=b"in"), words
        for env in SETTINGS:
            assert await ended(warm, ("show.py",), env=env) == await ended(plain, ("show.py",), env=env), env


FORKED = "import json, sys; print(json.loaded if hasattr(json, 'loaded') else None); json.loaded = 1"


@pytest.mark.parametrize("back", BACKS)
async def test_what_was_declared_is_imported_once_and_nothing_a_rollout_did_is_left(back):
    async with back().open(BoxSpec(owner="warm", warm=("random", "json.tool"))) as box:
        seen = await python(box, "import sys; print('json.tool' in sys.modules, 'random' in sys.modules)")
        assert seen.stdout == b"True True\n"
        assert (await python(box, FORKED)).stdout == b"None\n"
        await box.reset()
        assert (await python(box, FORKED)).stdout == b"None\n"
        rolls = {(await python(box, "import random; print(random.random())")).stdout for _ in range(3)}
        assert len(rolls) == 3
        source = "import ctypes; print(ctypes.CDLL(None).prctl(3)); open('/proc/1/mem')"  # PR_GET_DUMPABLE
        done = await python(box, source)
        assert done.stdout == b"1\n"
        assert b"PermissionError" in done.stderr


@pytest.mark.parametrize("back", BACKS)
async def test_a_module_that_cannot_be_imported_is_named(back):
    with pytest.raises(InfraError, match="no_such_module"):
        async with back().open(BoxSpec(owner="warm", warm=("no_such_module",))):
            pass


async def test_a_pool_keeps_a_warm_box_for_its_variant_alone():
    spec = BoxSpec(owner="warm", warm=())
    async with Pool(EmbeddedBoxes()) as pool:
        async with pool.open(spec.running("a")) as first:
            await box_left(first)
        async with pool.open(spec.running("a")) as again:
            assert again is first
            assert await again.get(WORK, max_bytes=0) == []
        async with pool.open(spec.running("b")) as other:
            assert other is not first
            async with pool.open(spec.running("a")) as again:
                assert again is first
        assert len(pool._idle) <= 2
        async with pool.open(spec.running("b")) as box:
            await box._end()
            with pytest.raises(InfraError):
                await python(box, "pass")
        async with pool.open(spec.running("b")) as box:
            assert (await python(box, "print(1)")).stdout == b"1\n"
        assert spec.running("a") != BoxSpec(owner="warm").running("a") == BoxSpec(owner="warm")


async def box_left(box):
    await python(box, "open('left', 'w')")


def test_preload_is_for_a_warm_python_and_of_module_names():
    assert not {"warm", "preload"} & set(Policy().model_dump()["box"])
    assert override(Policy(), {"box.warm": True, "box.preload": ["json.tool"]}).box.preload == ("json.tool",)
    for wrong in ({"box.preload": ["json"]}, {"box.warm": True, "box.preload": ["a b"]}):
        with pytest.raises(InputError):
            override(Policy(), wrong)


class AlwaysWarm:
    """The same boxes with every command a fork."""

    def __init__(self, boxes):
        self.boxes = boxes

    def __getattr__(self, name):
        return getattr(self.boxes, name)

    def open(self, spec):
        return self.boxes.open(replace(spec, warm=()))


async def test_every_promise_is_held_in_forks_too():
    probes = await selfcheck(AlwaysWarm(EmbeddedBoxes()))
    assert len(probes) >= 60
    assert {probe.name: probe.detail for probe in probes if probe.held is False} == {}


async def test_a_run_decides_the_same_with_a_warm_python(tmp_path):
    decided = []
    for warm in (True, False):
        chosen = {"box.backend": "embedded", "box.warm": warm, "budget.steps": 3}
        runs = tmp_path / str(warm)
        async with open_run(make_toy(tmp_path / "toy"), seed=2, workers=2, overrides=chosen, runs=runs) as run:
            events = [event async for event in run.events]
        decided.append([(event.decision, event.score) for event in events if isinstance(event, TicketDecided)])
    assert decided[0] == decided[1]
