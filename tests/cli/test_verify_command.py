import json
import sqlite3


def test_an_untouched_run_is_0(strop, runs):
    said = strop("verify", "--runs", runs)
    assert said.code == 0
    assert "is what it was when it was written" in said.out
    assert json.loads(strop("verify", "--json", "--runs", runs).out)["ok"] is True


def test_a_changed_record_is_4_and_named(strop, runs):
    with sqlite3.connect(runs / "toy-1" / "run.db") as db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        changed = db.execute("UPDATE ledger SET body = replace(body, '0.125', '0.001') WHERE ticket = 5").rowcount
    db.close()
    assert changed == 1
    said = strop("verify", "--runs", runs)
    assert said.code == 4
    assert said.err.startswith("strop: error: integrity: ")
    said = strop("verify", "--json", "--runs", runs)
    found = json.loads(said.out)
    assert said.code == 4
    assert found["ok"] is False
    assert found["record"] in strop("verify", "--runs", runs).err
