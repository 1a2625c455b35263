import json
import time

import anyio
import pytest
from rich.console import Console
from support.engine import image, needs_docker

from harness.box.selfcheck import Probe
from harness.cli import probes
from harness.cli.probes import Check
from harness.errors import BoxUnavailableError
from harness.resources import resource


class FakeBoxes:
    name = "embedded"
    isolated = True

    def enforcement(self):
        return {"memory": "a watchdog"}


@pytest.fixture
def box(monkeypatch):
    """Stands in for the box's self-check: what it found, or how it failed."""

    def found(*tried):
        async def selfcheck(boxes, *, heard=None):
            if isinstance(tried[0], Exception):
                raise tried[0]
            return list(tried)

        async def missing(boxes):
            return ""

        monkeypatch.setattr("harness.box.selfcheck.selfcheck", selfcheck)
        monkeypatch.setattr("harness.box.bytecode.missing", missing)
        monkeypatch.setattr("harness.box.choose.choose", lambda name, image=None: FakeBoxes())

    found(Probe("network", True, "no way out"), Probe("cpu", None, "not tried"))
    return found


def test_a_machine_that_can_is_0(strop, box):
    said = strop("doctor")
    assert said.code == 0, said.out
    for name in ("python", "git", "sqlite", "disk", "box network"):
        assert name in said.out
    assert "failed" not in said.out


def test_a_python_without_byte_code_is_a_note_and_no_failure(strop, box, monkeypatch):
    async def missing(boxes):
        return "34 of 34 modules are compiled again at every start"

    monkeypatch.setattr("harness.box.bytecode.missing", missing)
    said = strop("doctor", "--json")
    assert said.code == 0
    (note,) = [check for check in json.loads(said.out)["checks"] if check["name"] == "byte code"]
    assert note["needed"] is False
    assert "34 of 34" in note["detail"]
    assert "compileall" in note["detail"]


def test_json(strop, box):
    found = json.loads(strop("doctor", "--json").out)
    assert found["ok"] is True
    checks = {check["name"]: check for check in found["checks"]}
    assert set(checks["git"]) == {"name", "ok", "detail", "mend", "needed"}
    assert checks["box cpu"]["needed"] is False


def test_a_promise_that_does_not_hold_is_3(strop, box):
    box(Probe("network", False, "reached the host"))
    said = strop("doctor")
    assert said.code == 3
    assert "reached the host" in said.out
    assert "not held" in said.out


def test_a_box_that_does_not_open_says_how_to_mend(strop, box):
    box(BoxUnavailableError("embedded boxes", reason="no user namespaces", mend="enable them"))
    said = strop("doctor", "--json")
    assert said.code == 3
    failed = [check for check in json.loads(said.out)["checks"] if not check["ok"]]
    assert [(check["name"], check["mend"]) for check in failed] == [("box", "enable them")]


async def test_what_is_done_is_told_and_only_silence_is_given_up(box, monkeypatch, tmp_path):
    async def selfcheck(boxes, *, heard):
        for count in range(6):
            await anyio.sleep(0.4)
            heard("network", count + 1, 6)
        if slow:
            await anyio.sleep(60)
        return [Probe("network", True, "no way out")]

    said, slow = [], False
    monkeypatch.setattr(probes, "BOX_TIMEOUT_S", 2.0)
    monkeypatch.setattr("harness.box.selfcheck.selfcheck", selfcheck)
    checks = await probes.examine("auto", tmp_path, told=said.append)
    assert all(check.ok for check in checks)
    assert said[-1] == "6 of 6 promises of the box tried: network"
    slow = True
    checks = {check.name: check for check in await probes.examine("auto", tmp_path)}
    assert (checks["box"].ok, checks["box"].detail) == (False, "no answer in 2 s")


def test_a_live_line_is_on_a_terminal_only(strop, box, monkeypatch):
    import io

    from harness.cli import output

    said = strop("doctor")
    assert "looking" not in said.out + said.err
    shown = io.StringIO()
    real = output.console

    def console(*, stderr=False):
        return real() if not stderr else Console(file=shown, force_terminal=True)

    monkeypatch.setattr(output, "console", console)
    monkeypatch.setenv("TERM", "xterm")
    with output.working("looking") as told:
        told("opening a box")
        time.sleep(0.3)
    assert "opening a box" in shown.getvalue()
    assert shown.getvalue().endswith("\x1b[2K")  # and it is gone


def test_no_git_is_3(strop, box, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    said = strop("doctor", "--json")
    assert said.code == 3
    failed = [check for check in json.loads(said.out)["checks"] if not check["ok"]]
    assert [check["name"] for check in failed] == ["git"]
    assert "apt-get install git" in failed[0]["mend"]


def test_a_git_that_only_says_its_version_is_not_enough(strop, box, monkeypatch, tmp_path):
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\necho git version 2.99\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert strop("doctor").code == 3


async def test_too_little_disk_fails(box, monkeypatch, tmp_path):
    monkeypatch.setattr(probes, "FREE_MB_NEEDED", 10**12)
    checks = {check.name: check for check in await probes.examine("auto", tmp_path)}
    assert not checks["disk"].ok
    assert "MB free" in checks["disk"].detail


async def test_a_folder_that_is_gone_fails_without_raising(box, tmp_path):
    checks = {check.name: check for check in await probes.examine("auto", tmp_path / "none")}
    assert not checks["sqlite"].ok
    assert not checks["disk"].ok
    assert checks["git"] == Check("git", True, checks["git"].detail)


def test_the_probes_leave_nothing_behind(strop, box, tmp_path):
    strop("doctor")
    assert list(tmp_path.iterdir()) == []


@needs_docker()
def test_the_promises_of_docker_are_a_table(strop):
    said = strop("doctor", "--box", "docker", "--image", image())
    assert said.code == 0, said.out
    assert said.out.count("held") > 60
    assert "not held" not in said.out


def test_a_subject_that_asks_a_model_has_one_or_is_told_how_to_name_one(strop, box):
    coder = resource("archives") / "coder"
    said = strop("doctor", "--subject", coder, "--json")
    assert said.code == 3
    (found,) = [check for check in json.loads(said.out)["checks"] if check["name"] == "models"]
    assert found["detail"] == "the subject 'coder' needs a model"
    assert '[policy.models.main] base_url = "http://' in found["mend"]
    digits = strop("doctor", "--subject", resource("archives") / "digits", "--json")
    assert "models" not in [check["name"] for check in json.loads(digits.out)["checks"]]


def test_what_nothing_holds_is_not_said_to_be_held():
    from harness.box.selfcheck import Probe, _promised

    probe = Probe("cpu", True, "8 busy processes used 0.9 cpus")
    assert _promised(probe, "not held: thread counts are set").held is None
    assert _promised(probe, "control group v2").held is True
    assert _promised(Probe("cpu", False, ""), "not held").held is False
