"""Agents as their registries give them, unchanged, in both boxes: opt in by saying where they are installed.

    STROP_AGENTS='mini-swe-agent=VENV aider=VENV codex=NODE_FOLDER' pytest tests/agent/test_agents_people_have.py

Not in CI: mini-swe-agent alone is 750 MB and 45 s of CPU to install.
"""

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from support.engine import image

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "agents.py"
TOLD = dict(pair.partition("=")[::2] for pair in os.environ.get("STROP_AGENTS", "").split())
INSTALLED = {name: Path(folder).resolve() for name, folder in TOLD.items()}
NAMES = ["mini-swe-agent", "aider", "opencode", "codex", "claude", "gemini", "opencode-acp", "gemini-acp"]


@pytest.fixture(scope="module")
def agents():
    spec = importlib.util.spec_from_file_location("agents_people_have", SCRIPT)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.mark.parametrize("box", ["embedded", "docker"])
@pytest.mark.parametrize("name", NAMES)
async def test_its_edit_comes_back_and_its_tokens_are_the_servers_own_count(agents, name, box):
    folder = INSTALLED.get(name)
    if folder is None:
        pytest.skip(f"STROP_AGENTS does not say where {name} is installed")
    if box == "docker" and image() is None:
        pytest.skip("no docker engine here with strop-box, strop-base or STROP_TEST_IMAGE")
    ran = await agents.run(name, folder, box)
    assert ran.told == agents.EDITED
    assert ran.calls > 0
    assert ran.metered == ran.served
    assert min(ran.metered) > 0
    assert not ran.estimated


def test_what_is_told_to_be_installed_is_known_and_there(agents):
    assert set(INSTALLED) <= set(agents.SCRIPTS)
    assert all(folder.is_dir() for folder in INSTALLED.values())


def test_a_run_that_lost_tokens_or_its_edit_is_not_good(agents):
    assert agents.Ran(agents.EDITED, 2, (9, 3), (9, 3), estimated=False).good
    assert not agents.Ran(agents.EDITED, 2, (9, 3), (9, 4), estimated=False).good
    assert not agents.Ran(agents.EDITED, 2, (9, 3), (9, 3), estimated=True).good
    assert not agents.Ran("odd tree", 2, (9, 3), (9, 3), estimated=False).good
