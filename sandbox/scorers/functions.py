"""HumanEval: the check calls the candidate's function in a process of its own, and judges what it returns here.

The process with the candidate's code sees arguments and gives back values; it never holds the check, its answers or the
result, so nothing in it can claim to have passed.
"""

import builtins
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import verdict

DEADLINE_S = 20

CHILD = r"""
import json, os, sys
sys.path.insert(0, os.getcwd())
from codec import decode, encode
asked, told = os.fdopen(int(sys.argv[1]), "r"), os.fdopen(int(sys.argv[2]), "w")
source, name = json.loads(asked.readline())
space = {"__name__": "solution"}
try:
    exec(compile(source, "solution.py", "exec"), space)
    function = space[name]
except BaseException as error:
    function = None
    broken = type(error).__name__
for row in asked:
    try:
        if function is None:
            raise RuntimeError(broken)
        args, kwargs = decode(json.loads(row))
        reply = {"value": encode(function(*args, **kwargs))}
    except BaseException as error:
        reply = {"error": type(error).__name__}
    told.write(json.dumps(reply) + "\n")
    told.flush()
"""

CODEC = r"""
def encode(value):
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return {"i": str(int(value))}
    if isinstance(value, float):
        return {"f": repr(float(value))}
    if isinstance(value, complex):
        return {"c": [repr(value.real), repr(value.imag)]}
    if isinstance(value, bytes):
        return {"b": value.hex()}
    for name, kind in (("l", list), ("t", tuple), ("s", set), ("z", frozenset)):
        if isinstance(value, kind):
            return {name: [encode(one) for one in value]}
    if isinstance(value, dict):
        return {"d": [[encode(key), encode(one)] for key, one in value.items()]}
    return {"x": type(value).__name__}


def decode(value):
    if not isinstance(value, dict):
        return value
    (kind, inner), = value.items()
    if kind == "i":
        return int(inner)
    if kind == "f":
        return float(inner)
    if kind == "c":
        return complex(float(inner[0]), float(inner[1]))
    if kind == "b":
        return bytes.fromhex(inner)
    if kind == "d":
        return {decode(key): decode(one) for key, one in inner}
    if kind in ("l", "t", "s", "z"):
        return {"l": list, "t": tuple, "s": set, "z": frozenset}[kind](decode(one) for one in inner)
    return object()
"""


def main():
    verdict.adopt()
    labels = Path("/labels")
    prompt, check = (labels / "prompt.py").read_text(), (labels / "check.py").read_text()
    name = (labels / "entry_point.txt").read_text().strip()
    solution = Path("/out/solution.py")
    if not solution.is_file():
        return 0.0
    space, codec = {"__name__": "check"}, {}
    exec(CODEC, codec)
    exec(prompt + "    pass\n", space)  # helpers that the check uses are in the prompt, which is ours
    exec(check, space)
    work = Path("/tmp/solution")
    work.mkdir()
    (work / "codec.py").write_text(CODEC)
    ask_r, ask_w = os.pipe()
    tell_r, tell_w = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(ask_r), str(tell_w)],
        cwd=work,
        pass_fds=(ask_r, tell_w),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(ask_r)
    os.close(tell_w)
    ask, told = os.fdopen(ask_w, "w"), os.fdopen(tell_r, "r")

    def candidate(*args, **kwargs):
        ask.write(json.dumps(codec["encode"]((args, kwargs))) + "\n")
        ask.flush()
        reply = json.loads(told.readline())
        if "error" in reply:
            kind = getattr(builtins, str(reply["error"]), RuntimeError)
            ordinary = isinstance(kind, type) and issubclass(kind, Exception)
            raise kind() if ordinary else RuntimeError()
        return codec["decode"](reply["value"])

    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError()))
    signal.alarm(DEADLINE_S)
    try:
        ask.write(json.dumps([solution.read_text(errors="replace"), name]) + "\n")
        ask.flush()
        space[name] = candidate  # some checks call the function by its own name
        space["check"](candidate)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 0.0
    finally:
        signal.alarm(0)
        child.kill()
        verdict.sweep()
    return 1.0


if __name__ == "__main__":
    verdict.write(main())
