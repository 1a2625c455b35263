import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from harness.cli.failure import GuardedGroup, crash
from harness.errors import AgentError, InputError, IntegrityError, MissingEnvironmentError, ModelError


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
        (ModelError("main", reason="cannot connect", mend="start it"), 3),
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
    assert process.returncode == (0 if words else 2)


def test_a_reader_that_goes_away_does_not_change_the_exit_code(runs):
    with sqlite3.connect(next(iter(runs.iterdir())) / "run.db") as connection:
        connection.execute("UPDATE ledger SET obs = '{}' WHERE seq = 2")
    connection.close()
    program = "from harness.cli import main; main(['verify'])"
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=writing, stderr=writing, env={**os.environ, "STROP_RUNS": str(runs)}
    ) as process:
        os.close(writing)
        assert process.wait(timeout=60) == 4


def test_a_machine_without_git_is_a_missing_environment(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "import harness.repo.store; from harness.repo.git import run_git; run_git(['version'])"],
        capture_output=True,
        text=True,
        env={"PATH": str(tmp_path)},
        timeout=60,
        check=False,
    )
    assert "MissingEnvironmentError" in done.stderr


def test_too_few_open_files_are_3_and_name_the_limit(tmp_path):
    program = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))\n"
    program += "from harness.cli import main; main(['doctor', '--box', 'embedded'])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "STROP_RUNS": str(tmp_path)},
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert "ulimit -n" in done.stdout + done.stderr
    assert "fault" not in done.stderr


@pytest.mark.parametrize("words", ["'log', '--json'", "'status'", "'--help'"])
def test_an_output_that_is_full_is_3_and_says_so(runs, words):
    program = f"from harness.cli import main; main([{words}])"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "STROP_RUNS": str(runs)},
            timeout=60,
            check=False,
        )
    assert done.returncode == 3
    assert "standard output: No space left on device" in done.stderr
    assert "fault" not in done.stderr
