import subprocess
import sys

import pytest

from harness.cli.app import app

HEAVY = {"numpy", "git", "pydantic", "plotly", "jinja2", "anyio", "harness.research", "harness.archive.sqlite"}
COMMANDS = sorted(command.name or "" for command in app.registered_commands)


def test_help_imports_nothing_heavy():
    program = (
        "import sys\n"
        "from harness.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit as left:\n    assert left.code == 0\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert "strop doctor" in done.stdout
    assert HEAVY.isdisjoint(done.stderr.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_teaches_with_an_example(strop, command):
    said = strop(command, "--help")
    assert said.code == 0
    assert f"Example: strop {command}" in " ".join(said.out.split())


def test_the_version(strop):
    from harness.version import VERSION

    assert strop("--version").out == f"strop {VERSION}\n" == strop("version").out


def test_no_command_is_a_usage_error_that_helps(strop):
    said = strop()
    assert said.code == 2
    assert "Usage: strop" in said.out + said.err


@pytest.mark.parametrize("words", [["bogus"], ["status", "--bogus"], ["run"], ["run", "x", "--seed", "many"]])
def test_usage_errors_are_2(strop, words):
    assert strop(*words).code == 2


def test_completion_is_offered(strop, monkeypatch):
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))  # it walks up to whoever began us
    assert "complete -o default -F _strop_completion strop" in strop("--show-completion").out
