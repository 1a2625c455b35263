from harness.report.claims import claims, cost_claim, holdout_claim, vault_claim


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
