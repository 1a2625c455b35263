import json

from harness.resources import resource

LANDSCAPE = resource("archives") / "landscape"


def test_clades_a_line_and_its_diffs(strop):
    strop("run", LANDSCAPE, "--steps", "12", "--seed", "5", "--quiet")
    clades = json.loads(strop("lineage", "--json", "--top", "0").out)
    assert {"v0", "v1"} <= {kin["variant"] for kin in clades}
    one = json.loads(strop("lineage", "last", "best", "--json").out)
    assert one["ancestors"][0] == "v0"
    assert [kin["variant"] for kin in one["line"]] == [*one["ancestors"], one["variant"]]
    told = strop("lineage", "last", "best").out
    assert f"children of {one['variant']}" in told
    assert "more: --top 0" in strop("lineage", "--top", "2").out
    steps = json.loads(strop("diff", "best", "--ancestors", "--json").out)
    assert [step["variant"] for step in steps] == [*one["ancestors"][1:], one["variant"]]
    shown = strop("diff", "best", "--ancestors").out
    assert shown.count("\n# ") + shown.startswith("# ") == len(steps)
    assert shown.count("diff --git") == sum(step["patch"].count("diff --git") for step in steps) >= len(steps)
    assert json.loads(strop("diff", "v1", "--json").out)["patch"] == steps[0]["patch"]


def test_what_is_not_there_is_said(strop):
    strop("run", LANDSCAPE, "--steps", "2", "--seed", "5", "--quiet")
    assert "no variant v99" in strop("lineage", "v99").err
    assert strop("diff", "v1", "v2", "--ancestors").code == 2


def test_a_run_without_an_archive_has_a_lineage_too(strop, runs, monkeypatch):
    monkeypatch.setenv("STROP_RUNS", str(runs))
    assert "v1 v0 kept" in " ".join(strop("lineage", "best").out.split())
