import os
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from harness.cli.failure import GuardedGroup, crash
from harness.errors import AgentError, InputError, IntegrityError, MissingEnvironmentError


def failing(error):
    app = typer.Typer(cls=GuardedGroup)

    @app.callback()
    def root():
        pass

    @app.command()
    def fail():
        raise error

    return CliRunner().invoke(app, ["fail"])


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("wrong", file="a.toml", key="x", mend="do y"), 2),
        (MissingEnvironmentError("box", reason="none", mend="install"), 3),
        (IntegrityError("row 3", expected="a", found="b"), 4),
        (AgentError("no"), 1),
        (KeyboardInterrupt(), 130),
        (BaseExceptionGroup("all", [ExceptionGroup("some", [InputError("deep")])]), 2),
        (BaseExceptionGroup("all", [KeyboardInterrupt()]), 130),
        (ExceptionGroup("all", [ValueError("unexpected")]), 1),
    ],
)
def test_errors_become_exit_codes_without_a_traceback(error, code):
    result = failing(error)
    assert result.exit_code == code
    assert "Traceback" not in result.output


def test_the_message_and_the_mend_are_said():
    result = failing(InputError("wrong", file="a.toml", key="x", mend="do y"))
    assert result.output == "strop: error: a.toml: x: wrong\n  mend: do y\n"


def test_hostile_error_text_is_encoded():
    assert "\x1b" not in failing(InputError("\x1b[31mred")).output


def test_debug_shows_the_traceback(monkeypatch):
    monkeypatch.setenv("STROP_DEBUG", "1")
    assert "Traceback" in failing(AgentError("no")).output


def test_an_unexpected_error_says_where_and_asks_for_a_report(capsys):
    try:
        raise ValueError("odd")  # noqa: TRY301 - it needs a traceback of its own
    except ValueError as error:
        crash(error)
    said = capsys.readouterr().err
    assert "unexpected ValueError at test_failure.py" in said
    assert "STROP_DEBUG=1" in said


@pytest.mark.parametrize(
    "words", ["'log', '--json'", "'log'", "'log', '--tsv'", "'diff'", "'--help'", "'run', '--help'", ""]
)
def test_a_reader_that_goes_away_is_no_error(runs, words):
    reading, writing = os.pipe()
    os.close(reading)
    program = f"from harness.cli import main; main([{words}])"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "STROP_RUNS": str(runs)},
    ) as process:
        os.close(writing)
        said = process.communicate(timeout=60)[1]
    assert said == ""
    assert process.returncode == 0
