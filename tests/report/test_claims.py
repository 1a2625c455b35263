import pytest

from harness.records import Verdict
from harness.report.claims import (
    brief,
    claims,
    cost_claim,
    evidence_rows,
    holdout_claim,
    rootless,
    vault_claim,
    why,
    working_tree_claim,
)


def test_every_claim_carries_its_bound(view):
    visible, vault = claims(view.summary)
    assert visible.label == "visible"
    assert "optimistic" in visible.bound
    assert (vault.root, vault.best) == ("0.26", "0.13")
    assert (vault.root_interval, vault.best_interval) == ("[0.22, 0.31]", "[0.1, 0.17]")
    assert vault.gain == "-50.0 %"
    assert "95 % Wilson over 360 examples" in vault.bound
    assert "paired gain 0.13 [0.09, 0.17]" in vault.bound


def test_the_holdout_is_said_with_eps(view):
    assert holdout_claim(view.summary) == "holds: 8 queries, 1 surprise, eps 0.091"


def test_a_run_without_a_vault_says_why(view):
    summary = {**view.summary, "vault": {"rollouts": [], "root": None, "best": None, "why": "no vault split"}}
    assert [claim.label for claim in claims(summary)] == ["visible"]
    assert vault_claim(summary) == "none: no vault split"
    assert vault_claim({**summary, "vault": None}) == "not opened yet"


def test_a_vault_that_could_not_be_measured_claims_no_number(view):
    vault = {**view.summary["vault"], "best": {"id": "v1", "metric": None, "ci": None, "why": "box died"}, "gain": None}
    claim = claims({**view.summary, "vault": vault})[1]
    assert claim.best == "-"
    assert claim.gain == ""
    assert "box died" in claim.bound


def test_the_cost_names_what_was_lost(view):
    assert cost_claim(view.summary) == "88 of 1000 rollouts, 1:33 of 8:00:00 wall, 1 rollouts lost to interruptions"


GAINED = {"candidate": 0.06, "incumbent": 0.0675, "gain": 0.0075000000000000015, "needed": 0.0}
CONFIRMED = {"mean_gain": 0.02, "lower_bound": 0.004, "alpha": 1e-4, "needed": 0.0}


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        ({"screen": {**GAINED, "needed": 0.01}}, "gain 0.0075, needed 0.01"),
        ({"screen": {**GAINED, "gain": -0.0625}}, "0.0625 worse than the best so far"),
        ({"screen": {**GAINED, "gain": 0.0}}, "no better than the best so far"),
        (
            {"screen": GAINED, "confirm": {**CONFIRMED, "lower_bound": -0.012500000000000004}},
            "mean gain 0.02 on fresh pairs, but its lower bound -0.0125 is not above 0",
        ),
        ({"screen": GAINED, "confirm": {"failed": 2}}, "it failed in 2 of the runs that should confirm it"),
        (
            {"screen": GAINED, "holdout": {"asked": True, "passed": False, "score": 0.1}},
            "gain 0.0075 on visible, but the holdout said no",
        ),
        (
            {"screen": GAINED, "confirm": CONFIRMED, "holdout": {"asked": True, "passed": False, "score": 0.1}},
            "gain 0.02 on visible, but the holdout said no",
        ),
        (
            {"screen": GAINED, "holdout": {"asked": False, "passed": False, "why": "worn out"}},
            "the holdout is worn out: it is not asked any more",
        ),
        ({"screen": GAINED, "recheck": {"passed": False, "score": 0.07}}, "another run of it gave 0.07"),
        ({"stages": {}, "holdout": {"asked": True, "passed": False}}, "the holdout said no"),
        ({}, "no gain that holds"),
        ({"screen": {"gain": "much"}}, "no gain that holds"),
    ],
)
def test_the_owner_is_told_why_a_ticket_was_discarded(evidence, said):
    assert why(Verdict.DISCARDED, "no gain that holds", evidence) == said
    archived = why(Verdict.ARCHIVED, "no gain that holds", evidence)
    assert archived == (said if said == "no gain that holds" else f"no gain that holds; not the best: {said}")


@pytest.mark.parametrize("verdict", [Verdict.KEPT, Verdict.CRASHED, Verdict.BLOCKED])
def test_other_verdicts_have_their_reason(verdict):
    assert why(verdict, "the \x1breason", {"screen": {"gain": -1.0}}) == "the \\x1breason"


def test_evidence_is_in_words():
    found = {"screen": {"gain": 0.012500000000000004, "needed": -0.0}, "holdout": {"asked": True, "why": None}}
    assert evidence_rows(found) == [("screen", "gain 0.0125, needed 0"), ("holdout", "asked yes, why none")]


def test_a_note_names_a_shared_file_once():
    assert brief("train.py: A 1 -> 2; train.py: B 3 -> 4") == "train.py: A 1 -> 2; B 3 -> 4"
    assert brief("train.py: A 1 -> 2; model.py: B 3 -> 4") == "train.py: A 1 -> 2; model.py: B 3 -> 4"
    assert brief("try this: a; try this: b") == "try this: a; try this: b"


def test_the_working_tree_is_told_when_it_is_not_the_commit():
    found = {"changed": ["a.py"], "untracked": ["b", "c", "d", "e"], "counts": {"changed": 1, "untracked": 4}}
    text = working_tree_claim(found)
    assert "1 file with uncommitted changes: the root has them as they lie there (a.py)" in text
    assert "4 files or folders not tracked by git and left out (b, c, d and 1 more)" in text
    assert working_tree_claim({"changed": [], "untracked": [], "counts": {"changed": 0, "untracked": 0}}) == ""
    assert working_tree_claim({}) == ""


def test_a_run_whose_root_failed_is_known():
    assert rootless({"root": None, "reason": "strop.toml: eval: the root itself has no score on visible: timeout"})
    assert not rootless({"root": None, "reason": "interrupted"})
    assert not rootless({"root": {"id": "v0"}, "reason": "the root itself has no score"})


def test_a_title_by_promotion_is_told_with_the_posterior_that_won_it():
    title = {
        "variant": "v3",
        "mean": 0.8,
        "interval": [0.6, 0.9],
        "taken": True,
        "holdout": {"asked": True, "passed": True},
    }
    said = why(Verdict.DUPLICATE, "the same tree as v1", {"title": title})
    assert said == "the same tree as v1; v3, run further, is the best now with 0.8 [0.6, 0.9]"
    refused = {**title, "taken": False, "holdout": {"asked": True, "passed": False}}
    assert why(Verdict.CRASHED, "it", {"title": refused}) == "it; v3, run further, led, but the holdout said no"
    worn = {**refused, "holdout": {"asked": False, "passed": False, "why": "worn out"}}
    assert "the holdout is worn out" in why(Verdict.CRASHED, "it", {"title": worn})
