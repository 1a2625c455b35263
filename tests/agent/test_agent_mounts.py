"""What an agent in a box finds of the folders that are laid into it."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from agent.test_command import benched, child_of, made

from harness.agent.command import CommandAgent, PythonAgent
from harness.agent.mounts import ahead, python, reach


def environment(folder, base=sys.executable):
    """A virtual environment that has a package of its own, as a user's has an SDK."""
    subprocess.run([base, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "users_sdk.py").write_text("RATE = 0.7\n")
    return folder


@pytest.fixture
def shown(tmp_path):
    """A folder that others may read, since a box is nobody in particular."""
    tmp_path.chmod(0o755)
    return tmp_path


@pytest.fixture
def own_base(shown):
    """A Python outside the system's folders, as uv, pyenv and conda install theirs."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    program = shown / "pythons" / "one" / "bin" / name
    program.parent.mkdir(parents=True)
    shutil.copy(Path(sys.executable).resolve(), program)
    (program.parents[1] / "lib").mkdir()
    (program.parents[1] / "lib" / name).symlink_to(sysconfig.get_path("stdlib"))
    (program.parents[1] / "secret.txt").write_text("not to be seen")
    return program


@pytest.mark.parametrize("box", ["embedded", "process"])
async def test_the_python_of_a_mounted_environment_calls_the_function(shown, box):
    file = shown / "mine.py"
    file.write_text("import users_sdk\ndef improve(ask):\n    return {'train.py': f'RATE = {users_sdk.RATE}\\n'}\n")
    venv = environment(shown / "venv")
    async with benched(box=box) as (bench, _):
        proposal = await made(PythonAgent({"file": str(file), "mounts": [str(venv)]}), bench)
    assert child_of(proposal)["train.py"] == "RATE = 0.7\n"


async def test_an_environment_over_a_python_of_the_users_own_works_and_shows_no_more_than_that(shown, own_base):
    venv = environment(shown / "venv", own_base)
    script = (
        "import users_sdk\nopen('train.py', 'w').write(f'RATE = {users_sdk.RATE}\\n')\n"
        f"open('{own_base.parents[1]}/secret.txt')"
    )
    async with benched() as (bench, _):
        agent = CommandAgent({"argv": [f"{venv}/bin/python", "-c", script], "mounts": [str(venv)]})
        proposal = await made(agent, bench)
    assert child_of(proposal)["train.py"] == "RATE = 0.7\n"
    assert proposal.memo["exit"] == 1


def test_only_the_parts_of_a_python_are_added_and_none_twice(shown, own_base):
    venv = environment(shown / "venv", own_base)
    laid = {mount.at for mount in reach([str(venv)])}
    assert laid == {str(venv), *(str(own_base.parents[1] / part) for part in ("bin", "lib"))}
    assert {mount.at for mount in reach([str(shown)])} == {str(shown)}


def test_a_link_to_a_program_that_is_no_python_adds_nothing(shown):
    (shown / "venv" / "bin").mkdir(parents=True)
    (shown / "home" / "bin").mkdir(parents=True)
    (shown / "home" / "bin" / "python").write_text("#!/bin/sh\n")
    (shown / "venv" / "bin" / "python").symlink_to(shown / "home" / "bin" / "python")
    assert {mount.at for mount in reach([str(shown / "venv")])} == {str(shown / "venv")}


def test_programs_of_mounts_come_first_and_a_box_without_them_has_its_own_python(shown):
    assert ahead(["/a"]) == ("/a/bin", "/a/node_modules/.bin")
    assert python([str(shown)]) == "python"
