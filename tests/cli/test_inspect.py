import json

import anyio


def test_status_json_has_what_a_machine_needs(strop, runs):
    said = strop("status", "--json", "--runs", runs)
    assert said.code == 0
    found = json.loads(said.out)
    assert found["run_id"] == "toy-1"
    assert found["state"] == "finished"
    assert found["seed"] == 7
    assert found["steps"]["done"] == 6
    assert found["counts"] == {"kept": 2, "discarded": 1, "blocked": 1, "crashed": 1, "duplicate": 1}
    assert found["root"] == {"id": "v0", "metric": 0.25}
    assert found["incumbent"] == {"id": "v5", "metric": 0.125}
    assert {"queries", "surprises"} <= set(found["holdout"])
    assert set(found["budget"]["rollouts"]) == set(found["budget"]["wall_s"]) == {"used", "limit"}
    assert len(found["ledger_head"]) == 64


def test_status_says_root_best_holdout_vault_cost_and_the_next_command(strop, runs):
    out = strop("status", "--runs", runs).out
    for text in (
        "v0 0.25 on visible",
        "v5 0.125 on visible  -50.0 %",
        "2 queries, 0 surprises, eps 0.085",
        "root 0.26 [0.22, 0.31]",
        "best 0.13 [0.1, 0.17]",
        "4 of 1000 rollouts",
        "embedded",
        f"strop export {runs}/toy-1 --to better/",
    ):
        assert text in out


def test_an_interrupted_run_is_told_how_to_go_on(strop, tmp_path, build):
    anyio.run(lambda: build(tmp_path / "runs" / "half", tickets=2, finished=False))
    assert f"strop resume {tmp_path}/runs/half" in strop("status", "half", "--runs", tmp_path / "runs").out


def test_the_runs_folder_may_come_from_the_environment(strop, runs, monkeypatch):
    monkeypatch.setenv("STROP_RUNS", str(runs))
    assert strop("status", "toy").code == 0
    assert strop("status", runs / "toy-1").code == 0


def test_no_run_is_an_input_error(strop, tmp_path):
    said = strop("status", "--runs", tmp_path / "none")
    assert said.code == 2
    assert said.err.startswith("strop: error: ")
    assert "mend:" in said.err
    assert "Traceback" not in said.err


def test_list_shows_every_run_and_names_the_unreadable(strop, runs):
    broken = runs / "broken"
    broken.mkdir()
    (broken / "run.db").write_bytes(b"not a database" * 100)
    found = {row["run_id"]: row for row in json.loads(strop("list", "--json", "--runs", runs).out)}
    assert found["toy-1"]["state"] == "finished"
    assert found["broken"]["state"] == "unreadable"
    said = strop("list", "--runs", runs)
    assert said.code == 0
    assert "toy-1" in said.out
    assert "broken" in said.out


def test_list_of_nothing_is_no_error(strop, tmp_path):
    said = strop("list", "--runs", tmp_path / "none")
    assert (said.code, said.out) == (0, "")
    assert "no runs" in said.err
    assert json.loads(strop("list", "--json", "--runs", tmp_path / "none").out) == []


def test_the_next_command_finds_the_run(strop, runs, monkeypatch):
    monkeypatch.setenv("STROP_RUNS", str(runs))
    assert "strop export toy-1 --to better/" in strop("status").out


def test_a_root_without_a_score_is_not_offered_a_resume(strop, tmp_path, monkeypatch):
    folder = tmp_path / "subject"
    folder.mkdir()
    (folder / "train.py").write_text("raise SystemExit(3)\n")
    words = ["--mode", "inline", "--editable", "train.py", "--run", "python train.py", "--metric", "loss"]
    assert strop("init", folder, *words, "--direction", "min", "--result", "stdout").code == 0
    assert strop("run", folder, "--box", "process", "--quiet").code == 2
    out = strop("status").out
    assert "root      the root has no score" in out
    assert "next      make the subject run and score as it is" in out
    assert "strop resume" not in out
    assert "the root has no score" in strop("list").out
    said = strop("log")
    assert said.code == 2
    assert "strop resume" not in said.err
