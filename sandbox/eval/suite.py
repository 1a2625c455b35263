"""Runs pinned tests against a candidate and writes one score per test. Needs pytest in the same Python.

    python -I -X pycache_prefix=DIR suite.py TESTS WORK NAMES METRIC DIRECTION PATHS...

Configuration, conftest files and plugins come from TESTS or from nowhere. Standard input holds a nonce, read first and
written to /result/.end with the digest of the result when every test has been reported.
"""

import hashlib
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from inline import RESULT, Own, digest

sys.path.pop(0)
MAX_ID = 190
mean, dumps = lambda values: total(values) / count(values), json.dumps  # ours, whatever is patched later
total, count = sum, len


class Recorder:
    """A test has passed if its set-up, its call and its tear-down have."""

    def __init__(self):
        self.failed = set()
        self.called = set()
        self.seen = []

    def pytest_runtest_logreport(self, report):
        if report.when == "setup":
            self.seen.append(report.nodeid)
        if report.when == "call" and report.outcome == "passed" and not hasattr(report, "wasxfail"):
            self.called.add(report.nodeid)
        if report.outcome == "failed":
            self.failed.add(report.nodeid)

    def passed(self):
        return {name: name in self.called and name not in self.failed for name in self.seen}


def short(name):
    if len(name) <= MAX_ID:
        return name
    return name[: MAX_ID - 17] + "-" + hashlib.sha256(name.encode()).hexdigest()[:16]


def main(nonce):
    import pytest

    tests, work, names, metric, direction, *paths = sys.argv[1:]
    sys.meta_path.insert(0, Own(frozenset(names.split(",")), [work]))
    sys.path.append(work)
    settings = os.path.join(tests, ".strop", "pytest.ini")
    recorder = Recorder()
    sys.argv = ["pytest"]
    code = pytest.main(
        [
            *("-c", settings, "--rootdir", tests, "--confcutdir", tests, "-p", "no:cacheprovider"),
            *("--import-mode=importlib", "-q", "--no-header", *paths),
        ],
        plugins=[recorder],
    )
    if code not in (0, 1):
        os._exit(int(code) or 3)
    items = {short(name): int(good == (direction == "max")) for name, good in recorder.passed().items()}
    if not items:
        os._exit(5)
    text = dumps({metric: mean(items.values()), "items": items}).encode()
    file = os.open(RESULT + "/result.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    while text:
        text = text[os.write(file, text) :]
    os.close(file)
    sys.stdout.flush()
    end = os.open(RESULT + "/.end", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    os.write(end, nonce + b" " + digest().encode())
    os.close(end)
    os._exit(0)


if __name__ == "__main__":
    main(sys.stdin.buffer.read())
