"""What agents in a box are told, and how they hear that it will not do."""

import os

import pytest

from harness.agent.command import AcpAgent, CommandAgent, PythonAgent
from harness.agent.settings import CommandConfig, read
from harness.errors import InputError


def refused(**config):
    with pytest.raises(InputError) as caught:
        CommandAgent({"argv": ["mine"], **config})
    return caught.value


def test_one_string_where_a_list_belongs():
    for key in ("mounts", "argv", "env", "drop"):
        error = refused(**{key: "a b"})
        assert error.problem == "must be a list of strings"
        assert error.mend == f'write {key} = ["..."], one string for each'


def test_folders_that_cannot_be_laid_into_a_box(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    shut = tmp_path / "shut"
    shut.mkdir(mode=0)
    broken = tmp_path / "venv" / "bin"
    broken.mkdir(parents=True)
    (broken / "python").symlink_to(tmp_path / "gone")
    told = {
        "relative": "is no absolute path",
        "/": "would hide what the box itself has there",
        "/run": "would hide",
        "/tmp": "would hide",
        "/work/mine": "lies where the box keeps its own files",
        str(tmp_path / "none"): "is not there",
        str(file): "is a file",
        str(broken.parent): "is an environment whose Python is gone",
        **({str(shut): "is not yours to read"} if os.geteuid() else {}),
    }
    for folder, problem in told.items():
        assert problem in refused(mounts=[folder]).problem, folder


def test_home_is_understood(monkeypatch, tmp_path):
    (tmp_path / "node").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read(CommandConfig, {"mounts": ["~/node"]}, "command").mounts == (str(tmp_path / "node"),)


@pytest.mark.parametrize("word", ["{prompts}", "--task={promt}", "{prompt-file}", "{models}"])
def test_a_placeholder_got_wrong_is_not_passed_on(word):
    error = refused(argv=["mine", word])
    assert "is no placeholder" in error.problem
    assert "{prompt}, {prompt_file}, {model}, {editable}" in error.mend
    with pytest.raises(InputError, match="is no placeholder"):
        AcpAgent({"argv": ["mine", word]})


@pytest.mark.parametrize("word", ["${prompts}", "{}", '{"prompts": 1}', "{other}", "{prompt}{model}"])
def test_other_braces_are_the_agents_own(word):
    assert CommandAgent({"argv": ["mine", word]}).name == "command"


def test_the_python_of_an_environment_that_may_not_be_read(tmp_path, monkeypatch):
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to("/elsewhere/python")

    def denied(path, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.is_symlink", denied)
    assert "a Python that you may not read" in refused(mounts=[str(venv)]).problem


def test_a_python_agent_wants_a_file_that_is_there(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        PythonAgent({"file": str(tmp_path / "none.py")})
