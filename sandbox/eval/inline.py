"""Runs a locked eval script beside the candidate it imports. Stdlib only; started with `python -I`.

    python -I -X pycache_prefix=DIR inline.py LOCKED WORK NAMES script PATH ARGS...   (or: module NAME ARGS...)

Standard input holds a nonce, read before anything else runs. Modules of the subject (NAMES, comma-separated) are looked
for in LOCKED, then beside the script; names that are new, only after the library and what is installed. When the script
has run to its end, /result/.end gets the nonce and the digest of the result: a program that left early has none.
"""

import atexit
import hashlib
import os
import runpy
import sys
from importlib.machinery import PathFinder

RESULT = os.environ.get("STROP_RESULT", "/result")


class Own:
    """Finds the subject's own modules where the subject has them."""

    def __init__(self, names, places):
        self.names = names
        self.places = places

    def find_spec(self, fullname, path=None, target=None):
        if path is None and fullname in self.names:
            return PathFinder.find_spec(fullname, self.places, target)
        return None


def digest():
    try:
        with open(RESULT + "/result.json", "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return "none"


def main(nonce):
    locked, work, names, kind, target, *rest = sys.argv[1:]
    place = os.path.dirname(os.path.abspath(os.path.join(work, target))) if kind == "script" else work
    inside = os.path.relpath(place, work)
    sys.meta_path.insert(0, Own(frozenset(names.split(",")), [os.path.normpath(os.path.join(locked, inside)), place]))
    sys.path.append(place)
    sys.argv = [target, *rest]
    del sys.modules["__main__"].main
    try:
        if kind == "script":
            runpy.run_path(os.path.join(work, target), run_name="__main__")
        else:
            runpy.run_module(target, run_name="__main__", alter_sys=True)
    except SystemExit as leaving:
        if leaving.code not in (None, 0):
            raise
    sys.stdout.flush()
    sys.stderr.flush()
    end = os.open(RESULT + "/.end", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    os.write(end, nonce + b" " + digest().encode())
    os.close(end)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.stdin.buffer.read())
