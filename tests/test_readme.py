"""What the README shows is what happens."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_python_example_runs(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([row for row in code.splitlines() if row.strip()]) <= 10
    code = code.replace('"archives/digits"', repr(str(ROOT / "archives" / "digits"))).replace(
        '"budget.steps": 10', '"budget.steps": 1'
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], check=False, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    ticket, vault = done.stdout.splitlines()
    assert ticket.startswith("v1 ")
    assert "'best':" in vault


@pytest.mark.parametrize("command", sorted(set(re.findall(r"\bstrop ([a-z]+)\b", README))))
def test_every_command_named_is_a_command(command):
    strop = Path(sys.executable).parent / "strop"
    done = subprocess.run([strop, command, "--help"], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
