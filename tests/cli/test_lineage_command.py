import json
from pathlib import Path

import pytest

from harness.report.numbers import interval, measured
from harness.research.evidence.posterior import Share
from harness.resources import resource
from harness.testing.ladder import write_ladder

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


def test_wherever_a_score_stands_there_is_the_posterior_s_interval(strop, tmp_path, runs):
    subject = write_ladder(tmp_path / "ladder")
    lines = strop("run", subject, "--steps", "8", "--seed", "1", "--plain").out.splitlines()
    summary = json.loads(strop("status", "--json").out)
    tickets = json.loads(strop("log", "--json").out)
    told = [ticket for ticket in tickets if ticket["score"] is not None]
    assert told
    for ticket in told:
        assert ticket["interval"] == pytest.approx(ticket["evidence"]["stages"]["interval"])
        assert ticket["interval"][0] < ticket["score"] < ticket["interval"][1]
    root, best = summary["root"], summary["incumbent"]
    assert root["metric"] == pytest.approx(Share(6, 14).mean)
    assert root["interval"] == pytest.approx(Share(6, 14).interval())
    shown = [measured(side["metric"], side["interval"]) for side in (root, best)]
    each = [measured(ticket["score"], ticket["interval"]) for ticket in told]
    assert f"root v0 {shown[0]}" in "\n".join(lines)
    assert all(any(one in line for line in lines if line.startswith("[")) for one in each)
    log = strop("log").out
    assert all(one in log for one in [shown[0], *each])
    assert each[0] in strop("show", told[0]["variant"]).out
    assert all(one in strop("status").out for one in shown)
    assert all(one in strop("list").out for one in shown)
    page = (Path(summary["folder"]) / "report.html").read_text()
    assert all(interval(list(side["interval"])) in page for side in (root, best))
    assert all(one in page for one in each)
