import json

import pytest

from harness.archive.signing import CONFIG_VARIABLE
from harness.resources import resource

LANDSCAPE = resource("archives") / "landscape"


@pytest.fixture(autouse=True)
def _own_config(tmp_path, monkeypatch):
    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / "config"))


def test_there_and_back_and_on_from_it(strop):
    assert strop("run", LANDSCAPE, "--steps", "4", "--quiet").code == 0
    out = strop("archive", "export", "last", "a.strop").out
    key = strop("archive", "key").out.strip()
    assert key in out
    assert "(your own key)" in strop("archive", "verify", "a.strop").out
    assert "as expected" in strop("archive", "import", "a.strop", "--name", "again", "--expect-key", key).out
    head = json.loads(strop("status", "again", "--json").out)["ledger_head"]
    assert f"head {head}" in out
    for command in ("verify", "log", "replay", "report"):
        assert strop(command, "again").code == 0
    assert "v2 of run again" in strop("show", "again", "v2").out
    for start in ("again", "a.strop"):
        said = strop("run", LANDSCAPE, "--from", start, "--from-best", "2", "--steps", "3", "--plain")
        assert said.out.count("of the run before") >= 2


def test_a_tampered_file_is_refused_with_4(strop, tmp_path):
    strop("run", LANDSCAPE, "--steps", "2", "--quiet")
    strop("archive", "export", "last", "a.strop")
    spoiled = bytearray((tmp_path / "a.strop").read_bytes())
    spoiled[-9] ^= 1
    (tmp_path / "b.strop").write_bytes(spoiled)
    another = ["verify", "a.strop", "--expect-key", f"ed25519:{7:064}"]
    for words in (["import", "b.strop"], ["verify", "b.strop"], another):
        said = strop("archive", *words)
        assert said.code == 4
        assert "integrity" in said.err
    assert strop("run", LANDSCAPE, "--from", "b.strop").code == 4
    assert strop("archive", "verify", LANDSCAPE / "strop.toml").code == 2
    assert strop("archive", "verify", "a.strop", "--expect-key", "nonsense").code == 2
    assert strop("archive", "export", "last", "a.strop").code == 2
    assert strop("run", LANDSCAPE, "--from-best", "2").code == 2
