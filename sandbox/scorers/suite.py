"""pytest: the share of the task's tests that pass on what the agent left.

The tests run in one process with the agent's code, as tests do; what this cannot promise is said in docs/tasks.md.
"""

import secrets
import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

import verdict

DEADLINE_S = 600


def main():
    verdict.adopt()
    home = Path("/tmp") / secrets.token_hex(8)
    verdict.copy("/out", home / "work")
    shutil.rmtree(home / "work" / "tests", ignore_errors=True)
    for name in ("conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml"):
        (home / "work" / name).unlink(missing_ok=True)
    verdict.copy("/labels/tests", home / "work" / "tests")
    told = home / f"{secrets.token_hex(8)}.xml"
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={told}", "tests"]
    verdict.run(argv, home / "work", {"PYTHONPATH": str(home / "work")}, DEADLINE_S)
    try:
        suite = next(iter(ElementTree.parse(told).getroot()))
        total = int(suite.get("tests"))
        failed = sum(int(suite.get(key)) for key in ("failures", "errors", "skipped"))
    except (OSError, ElementTree.ParseError, StopIteration, TypeError, ValueError):
        return 0.0
    return (total - failed) / total if total else 0.0


if __name__ == "__main__":
    verdict.write(main())
