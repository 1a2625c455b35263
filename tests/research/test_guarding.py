"""Gate, guards, rotation and divergence in whole runs on the toy."""

import html
import json

import pytest
from research.test_run import bodies, play, verdicts
from support.toy import NOISY_TRAIN, SCORE, STROP, TRAIN, make_toy

from harness.cli.ending import rows
from harness.errors import InputError
from harness.events import RunStopped, TicketDecided
from harness.report.html import write_report
from harness.research.evidence.statistics import holdout_epsilon
from harness.research.matched import by_luck
from harness.research.standing import Standing


async def evidence(run, ticket):
    return next(
        body["decision"]["evidence"]
        for kind, body in await bodies(run.folder)
        if kind == "ticket" and body["ticket"] == ticket
    )


PLAIN = TRAIN.replace("{VALUE}\\n", "{VALUE}{chr(10)}")
LUCKY = PLAIN.replace("ids =", "import os\nVALUE += os.urandom(1)[0] / 256\nids =")


async def test_luck_is_found_out_by_a_second_run(tmp_path):
    source = LUCKY.replace("VALUE = 20", "VALUE = 60").replace("\n", "\\n")
    events, run = await play(make_toy(tmp_path / "toy"), tmp_path / "runs", script=[f"source {source}", "value 60"])
    assert verdicts(events) == ["discarded", "kept"]
    found = await evidence(run, 1)
    assert found["recheck"]["passed"] is False
    assert "holdout" not in found
    assert run.summary["holdout"]["queries"] == 1
    assert run.summary["baseline"]["differed"] == 1
    assert "1 of the candidates' second runs answered otherwise" in dict(rows(run.summary))["baseline"]


async def test_items_stand_beside_every_gain(tmp_path):
    _, run = await play(make_toy(tmp_path / "toy"), tmp_path / "runs", script=["value 60"])
    found = await evidence(run, 1)
    assert found["items"]["gained"] == 8
    assert found["items"]["test"] == "bootstrap"


async def test_items_can_be_required(tmp_path):
    chosen = {"gate.items": "require", "gate.candidates": 2, "gate.alpha": 0.001}
    events, run = await play(make_toy(tmp_path / "toy"), tmp_path / "runs", script=["value 60", "value 61"], **chosen)
    assert verdicts(events) == ["kept", "kept"]
    assert (await evidence(run, 1))["items"]["alpha"] == 0.0005
    none = {"gate.items": "require", "gate.alpha": 0.0001}
    events, run = await play(make_toy(tmp_path / "toy"), tmp_path / "runs", script=["value 60"], **none)
    assert verdicts(events) == ["discarded"]
    assert (await evidence(run, 1))["items"]["passed"] is False


GUARDED = """\
[[eval.guard]]
metric = "size"
tolerance = 10
[[eval.guard]]
items = ["v0"]
"""
SIZED = SCORE.replace('"items": items', '"items": items, "size": float(next(iter(said.values()))) * 1.0')


async def test_a_guard_metric_vetoes(tmp_path):
    strop = STROP.replace("[splits]", GUARDED + "[splits]")
    events, run = await play(
        make_toy(tmp_path / "toy", score=SIZED, strop=strop),
        tmp_path / "runs",
        script=["value 60", "value 29", "value 21"],
    )
    assert verdicts(events) == ["discarded", "kept", "discarded"]
    reasons = [event.decision.reason for event in events if isinstance(event, TicketDecided)]
    assert reasons[0] == "a guard got worse: size"
    assert (await evidence(run, 2))["guards"] == {"passed": True, "regressed": {}}
    assert run.summary["vault"]["best"]["metric"] is not None


async def test_a_guard_that_matches_no_example_is_refused_at_the_start(tmp_path):
    strop = STROP.replace("[splits]", GUARDED.replace('"v0"', '"zzz*"') + "[splits]")
    with pytest.raises(InputError, match="matches no example"):
        await play(make_toy(tmp_path / "toy", score=SIZED, strop=strop), tmp_path / "runs", script=["value 60"])


async def test_visible_rising_alone_ends_the_run_by_name(tmp_path):
    script = [f"memorise {70 - n}" for n in range(5)]
    events, run = await play(make_toy(tmp_path / "toy"), tmp_path / "runs", script=script, **{"stop.divergence": 2})
    assert run.summary["stop"]["reason"] == "divergence"
    assert run.summary["holdout"]["surprises"] == 2
    assert any(isinstance(event, RunStopped) and event.reason == "divergence" for event in events)


async def test_rotation_goes_on_with_fresh_examples(tmp_path):
    chosen = {"holdout.then": "rotate", "holdout.parts": 2, "holdout.surprises": 1, "stop.divergence": 0}
    script = ["memorise 70", "value 60", "memorise 69", "value 61"]
    events, run = await play(make_toy(tmp_path / "toy"), tmp_path / "runs", script=script, **chosen)
    assert verdicts(events)[:3] == ["discarded", "kept", "discarded"]
    assert run.summary["stop"]["reason"] == "holdout"
    assert (await evidence(run, 1))["holdout"]["part"] == 0
    assert (await evidence(run, 2))["holdout"]["part"] == 1
    claim = run.summary["holdout"]
    assert (claim["limit"], claim["examples"]) == (2, 4)


async def test_a_frozen_holdout_ends_the_run_and_says_so(tmp_path):
    chosen = {"holdout.surprises": 1, "stop.divergence": 0}
    script = ["memorise 70", "value 60", "value 61"]
    events, run = await play(make_toy(tmp_path / "toy"), tmp_path / "runs", script=script, **chosen)
    assert verdicts(events) == ["discarded"]
    assert run.summary["stop"]["reason"] == "holdout"
    claim = run.summary["holdout"]
    assert (claim["verdict"], claim["queries"], claim["surprises"], claim["limit"]) == ("worn out", 1, 1, 1)
    assert claim["eps"] == pytest.approx(holdout_epsilon(1, 1, 8))
    said = dict(rows(run.summary))["holdout"]
    assert said == f"worn out: 1 query, 1 surprise, eps {claim['eps']:.3f}"
    assert said in (await page(run.folder))


async def test_the_ladder_keeps_only_steps_on_what_is_hidden(tmp_path):
    chosen = {"holdout.method": "ladder", "holdout.step": 0.1, "gate.min_effect": 0.0}
    script = ["value 25", "value 60", "value 65"]
    events, run = await play(make_toy(tmp_path / "toy"), tmp_path / "runs", script=script, **chosen)
    assert verdicts(events) == ["discarded", "kept", "discarded"]  # 0.05 and 0.05 better, 0.4 better
    asked = [(await evidence(run, ticket))["holdout"] for ticket in (1, 2, 3)]
    assert [one["method"] for one in asked] == ["ladder"] * 3
    assert asked[1]["score"] == pytest.approx(0.1)  # 0.10 rounded to the step, and nothing finer is remembered
    assert run.summary["holdout"]["surprises"] == 2


async def test_thresholdout_refuses_the_memorised_and_keeps_the_real(tmp_path):
    chosen = {"holdout.method": "thresholdout", "holdout.threshold": 0.05, "holdout.noise": 0.001}
    script = ["memorise 70", "value 60"]
    events, run = await play(make_toy(tmp_path / "toy"), tmp_path / "runs", script=script, **chosen)
    assert verdicts(events) == ["discarded", "kept"]
    assert (await evidence(run, 1))["holdout"]["method"] == "thresholdout"
    assert (run.summary["holdout"]["queries"], run.summary["holdout"]["surprises"]) == (2, 1)


async def test_small_memorised_gains_do_not_add_up_past_the_threshold(tmp_path):
    chosen = {"holdout.method": "thresholdout", "holdout.threshold": 0.05, "holdout.noise": 0.0001}
    small = PLAIN.replace("{id},{VALUE}", "{id},{VALUE if id[0] == 'v' else 20}").replace("\n", "\\n")
    script = [f"source {small.replace('VALUE = 20', f'VALUE = {20 + 4 * n}')}" for n in range(1, 6)]
    events, run = await play(
        make_toy(tmp_path / "toy"), tmp_path / "runs", script=script, **chosen, **{"stop.divergence": 0}
    )
    assert verdicts(events) == ["kept", "discarded", "discarded", "discarded", "discarded"]
    assert run.summary["holdout"]["surprises"] == 4


async def test_no_proposer_is_told_what_the_holdout_said(tmp_path):
    events, _ = await play(
        make_toy(tmp_path / "toy"), tmp_path / "runs", script=["memorise 70", "value 19"], **{"stop.divergence": 0}
    )
    told = [event.decision.reason for event in events if isinstance(event, TicketDecided)]
    assert told[0] == told[1] == "no gain that holds"


async def test_a_simpler_variant_that_is_no_worse_is_kept(tmp_path):
    long = PLAIN.replace("VALUE = 20", "VALUE = 60  # changed\nA = 1\nB = 2").replace("\n", "\\n")
    script = [f"source {long}", "value 60"]
    events, run = await play(make_toy(tmp_path / "toy"), tmp_path / "runs", script=script, **{"gate.simplicity": True})
    # the second starts from the first: its source is as long, and so no simpler
    assert verdicts(events) == ["kept", "discarded"]
    short = PLAIN.replace("VALUE = 20", "VALUE = 60").replace("\n", "\\n")
    events, run = await play(
        make_toy(tmp_path / "toy"),
        tmp_path / "runs",
        script=[f"source {long}", f"source {short}"],
        **{"gate.simplicity": True},
    )
    assert verdicts(events) == ["kept", "kept"]
    assert (await evidence(run, 2))["simplicity"] == {"candidate": 4, "incumbent": 6, "margin": 0.0}


async def test_alpha_that_is_spent_ends_the_run(tmp_path):
    subject = make_toy(tmp_path / "toy", train=NOISY_TRAIN)
    events, run = await play(
        subject, tmp_path / "runs", script=["value 21", "value 65", "value 66"], **{"gate.candidates": 1}
    )
    assert len(verdicts(events)) < 3
    assert run.summary["stop"]["reason"] == "alpha"


async def test_little_work_is_implausible(tmp_path):
    slow = PLAIN.replace("ids =", "total = sum(n * n for n in range(3_000_000))\nids =")
    strop = STROP.replace("[splits]", "[eval.plausible]\nmin_work = 0.5\n[splits]")
    quick = PLAIN.replace("VALUE = 20", "VALUE = 60").replace("\n", "\\n")
    events, run = await play(
        make_toy(tmp_path / "toy", train=slow, strop=strop), tmp_path / "runs", script=[f"source {quick}", "value 60"]
    )
    assert verdicts(events) == ["crashed", "kept"]
    assert "processor time" in (await evidence(run, 1))["plausible"]["why"]


async def test_declared_outputs_are_looked_at(tmp_path):
    strop = STROP.replace(
        "[splits]", '[eval.plausible]\noutputs = ["predictions.csv"]\nmax_share = 1.0\nmin_bytes = 20\n[splits]'
    )
    source = "open('/out/other.csv', 'w').write('x')"
    events, _ = await play(
        make_toy(tmp_path / "toy", strop=strop), tmp_path / "runs", script=[f"source {source}", "value 60"]
    )
    assert verdicts(events) == ["crashed", "kept"]
    assert "predictions.csv was not written" in json.dumps(
        [event.decision.reason for event in events if isinstance(event, TicketDecided)]
    )


async def test_the_vault_says_what_sampling_alone_would_give(tmp_path):
    score = SCORE.replace(
        "min(1.0, abs(float(said[id]) - float(label)) / 100)", "float(abs(float(said[id]) - float(label)) > 50)"
    )
    train = NOISY_TRAIN.replace("{VALUE}", "{VALUE + random.uniform(-30, 30)}")
    _, run = await play(
        make_toy(tmp_path / "toy", train=train, score=score),
        tmp_path / "runs",
        script=["value 69"],
        **{"gate.candidates": 1},
    )
    sampling = run.summary["vault"]["sampling"]
    assert sampling["root"]["repeats"] == 4
    assert sampling["root"]["best_of"] <= run.summary["vault"]["root"]["metric"] <= sampling["root"]["on_all"]
    baseline = run.summary["baseline"]
    assert (baseline["k"], baseline["by"], baseline["deterministic"]) == (4, "examples", False)
    assert baseline["best_of"] == pytest.approx(sampling["root"]["best_of"])
    assert baseline["on_all"]["best"] == pytest.approx(sampling["best"]["on_all"])
    assert baseline["luck"]["metric"] < run.summary["root"]["metric"]
    assert "lucky reruns of the root would read" in dict(rows(run.summary))["baseline"]


async def test_a_deterministic_root_run_again_is_no_better(tmp_path):
    _, run = await play(make_toy(tmp_path / "toy"), tmp_path / "runs", script=["value 60"])
    baseline, vault = run.summary["baseline"], run.summary["vault"]
    assert baseline["k"] == 1
    assert baseline["best_of"] == pytest.approx(vault["root"]["metric"])
    assert baseline["on_all"]["best"] == pytest.approx(vault["best"]["metric"])
    assert baseline["luck"]["metric"] == run.summary["root"]["metric"]
    assert "deterministic" in dict(rows(run.summary))["baseline"]
    assert dict(rows(run.summary))["baseline"] in (await page(run.folder))


async def test_whole_runs_stand_in_where_the_metric_is_no_mean_of_examples(tmp_path):
    score = SCORE.replace(', "items": items', "")
    _, run = await play(
        make_toy(tmp_path / "toy", train=NOISY_TRAIN, score=score), tmp_path / "runs", script=["value 69"]
    )
    baseline = run.summary["baseline"]
    assert (baseline["k"], baseline["by"]) == (4, "runs")
    assert baseline["best_of"] < run.summary["vault"]["root"]["metric"] < baseline["on_all"]["root"]


def test_luck_grows_with_the_reruns_and_is_none_without_noise():
    standing = Standing("max", deterministic=False, noise=0.1, reference={"v0": 0.5})
    found = [by_luck(standing, count) for count in (1, 2, 30, 300)]
    assert found[0] == 0.5
    assert found == sorted(found)
    assert found[-1] == pytest.approx(0.5 + 0.1 * 2.85, abs=0.01)  # E[max of 300 normals] is 2.85 deviations
    standing.deterministic = True
    assert by_luck(standing, 300) == 0.5


async def page(folder):
    await write_report(folder, None)
    return html.unescape((folder / "report.html").read_text())
