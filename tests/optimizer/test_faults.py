"""Each fault measured in the field's optimizers, as a test that fails on the fault; `FAULTS` says which is which."""

import ast
import json
import random
from pathlib import Path

import numpy as np
import pytest

from harness.errors import BudgetError, InputError
from harness.optimizer.base import Done, Result
from harness.optimizer.combee import batch_size, fit_delay, groups
from harness.optimizer.drive import advance, optimize
from harness.optimizer.gepa import Gepa
from harness.optimizer.playbook import Playbook, additions
from harness.optimizer.pool import Pool, score_of
from harness.optimizer.registry import BUILT_IN, make_optimizer, optimizer_names
from harness.records import Status
from harness.streams import stream
from harness.testing.prompt_critic import PromptCritic
from harness.testing.prompt_host import SimulatedHost
from harness.testing.prompt_world import questions
from optimizer.worlds import SMALL, Counting, Jittery, Mute, Plugged, PulledPlugError, Raising, Saying, Slotted

NAMES = sorted(BUILT_IN)
MODELLED = [name for name in NAMES if name != "bootstrap"]
HERE = Path(__file__).parent
FAULTS = {
    "an unfinished rollout is dropped from the mean": "test_a_timeout_counts_in_the_mean",
    "a late rollout is never cancelled": "test_deadline.py::test_what_is_late_is_a_timeout_paid_once_and_kept",
    "a crash beats a negative score": "test_a_crash_never_beats_a_negative_score",
    "literal braces break every rollout": "test_admit.py::test_literal_braces_are_text",
    "a dropped placeholder wins": "test_an_edit_that_drops_a_placeholder_is_never_run",
    "fences and preamble are adopted": "test_admit.py::test_fences_tags_quotes_and_preamble_come_off",
    "a None or truncated reply is adopted": "test_a_mute_or_cut_off_model_is_never_adopted",
    "the same prompt is scored again and again": "test_the_same_text_is_scored_once",
    "everything is sequential": "test_what_can_run_at_once_does",
    "the budget is checked at the top of the loop": "test_budget_is_never_overrun_and_its_end_is_an_end",
    "concurrent budgets overrun": "test_concurrent_proposals_stay_within_the_budget",
    "a resumed run differs": "test_a_crash_at_any_call_resumes_to_the_same_end",
    "train and val share keys": "test_the_hosts_keys_tell_train_from_val",
    "an always-raising task loops for ever": "test_an_always_raising_task_ends",
    "a merge of all-zero ancestors raises": "test_a_merge_of_candidates_without_any_score_is_no_error",
    "unseeded global randomness": "test_global_randomness_is_neither_read_nor_moved",
    "a playbook grows without bound": "test_a_playbook_is_bounded_and_holds_nothing_twice",
    "seed 0 is ignored": "test_seed_zero_counts_and_equal_seeds_agree",
    "the winner is chosen on its report": "../research/optimize/test_agent.py::test_no_optimizer_sees_holdout_or_vault",
}


def host(kind=SimulatedHost, **more):
    more = {"train": questions(20, 1), "val": questions(12, 2, "val"), **more}
    return kind(**more)


def ok(score):
    return Result("train/1", Status.OK, score)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_of_the_field_has_its_test(fault):
    file, _, name = FAULTS[fault].rpartition("::")
    tree = ast.parse((HERE / (file or Path(__file__).name)).read_text("utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


async def test_every_optimizer_has_a_small_setting_and_ends():
    assert set(SMALL) == set(NAMES) <= set(optimizer_names())
    for name in NAMES:
        done = await optimize(make_optimizer(name), host(), SMALL[name])
        assert done.nominees, name
        assert done.reason, name


@pytest.mark.parametrize("name", NAMES)
async def test_budget_is_never_overrun_and_its_end_is_an_end(name):
    spent = host()
    await optimize(make_optimizer(name), spent, SMALL[name])
    for limit in range(20, spent.used() + 1, 13):
        at = host(rollouts=limit)
        done = await optimize(make_optimizer(name), at, SMALL[name])
        assert at.used() <= limit
        assert done.nominees


@pytest.mark.parametrize("name", ["gepa", "apo", "bootstrap", "mipro", "opro"])
async def test_a_budget_below_the_seed_is_said_so(name):
    with pytest.raises(InputError, match="seed"):
        await optimize(make_optimizer(name), host(rollouts=3), SMALL[name])


@pytest.mark.parametrize("name", NAMES)
async def test_completions_are_budgeted_too(name):
    at = host(completions=12)
    await optimize(make_optimizer(name), at, SMALL[name])
    assert at.used("completions") <= 12


@pytest.mark.parametrize("name", NAMES)
async def test_a_crash_at_any_call_resumes_to_the_same_end(name):
    whole = host(Plugged)
    expected = await optimize(make_optimizer(name), whole, SMALL[name])
    for dies_at in range(1, whole.calls, max(1, whole.calls // 12)):
        at = host(Plugged, dies_at=dies_at)
        kept = []

        async def keep(state, kept=kept):
            kept.append(json.dumps(state))

        with pytest.raises(PulledPlugError):
            await optimize(make_optimizer(name), at, SMALL[name], keep=keep)
        at.dies_at = 10**9
        state = json.loads(kept[-1]) if kept else None
        assert await optimize(make_optimizer(name), at, SMALL[name], state=state) == expected
        assert at.used() == whole.used()
        assert at.used("completions") == whole.used("completions")


@pytest.mark.parametrize("name", NAMES)
async def test_a_step_never_changes_the_state_it_was_given(name):
    optimizer, at, state = make_optimizer(name), host(), None
    while not isinstance(state, Done):
        before = json.dumps(state)
        after = await advance(optimizer, at, SMALL[name], state)
        assert json.dumps(state) == before
        state = after


@pytest.mark.parametrize("name", NAMES)
async def test_seed_zero_counts_and_equal_seeds_agree(name):
    ends = [await optimize(make_optimizer(name), host(seed=seed), SMALL[name]) for seed in (0, 0, 1)]
    assert ends[0] == ends[1]
    assert ends[0] != ends[2]


@pytest.mark.parametrize("name", NAMES)
async def test_global_randomness_is_neither_read_nor_moved(name):
    ends = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)
        before = random.getstate(), np.random.get_state()[1].tolist()
        ends.append(await optimize(make_optimizer(name), host(), SMALL[name]))
        assert before == (random.getstate(), np.random.get_state()[1].tolist())
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("name", "config", "least"),
    [
        ("ape", {"arms": 4}, 4),
        ("apo", {"beam_width": 2, "branch_factor": 3}, 6),
        ("bootstrap", {"sets": 6}, 6),
        ("gepa", {"parallel": 6, "iterations": 12}, 6),
        ("mipro", {"instructions": 4}, 4),
        ("opro", {"proposals": 6}, 6),
        ("protegi", {"arms": 4}, 4),
    ],
)
async def test_what_can_run_at_once_does(name, config, least):
    at = host(Counting)
    await optimize(make_optimizer(name), at, {**SMALL[name], **config})
    assert at.most >= least


@pytest.mark.parametrize("name", MODELLED)
async def test_a_mute_or_cut_off_model_is_never_adopted(name):
    at = host(Mute)
    done = await optimize(make_optimizer(name), at, SMALL[name])
    assert {texts["parse"] for texts in done.nominees} == {"Solve the task."}


@pytest.mark.parametrize("name", MODELLED)
async def test_an_edit_that_drops_a_placeholder_is_never_run(name):
    at = host(Slotted)
    at.own = tuple(
        slot if slot.kind == "demos" else type(slot)(slot.name, "Solve {kind}", ("kind",), "braces", module=slot.module)
        for slot in at.world.slots
    )
    at.complete = host(Saying, text="Just answer units dates").complete
    done = await optimize(make_optimizer(name), at, SMALL[name])
    assert all("{kind}" in texts["parse"] and "{kind}" in texts["answer"] for texts in done.nominees)


@pytest.mark.parametrize("name", ["gepa", "apo", "opro", "protegi", "ape"])
async def test_the_same_text_is_scored_once(name):
    at = host(Saying, text="```\nSolve   units\n```")
    await optimize(make_optimizer(name), at, SMALL[name])
    texts = {print_of for print_of, _, _ in at.results}
    assert len(texts) <= 4  # the seed, the text in one slot, in the other, in both


@pytest.mark.parametrize("name", NAMES)
async def test_an_always_raising_task_ends(name):
    at = host(Raising)
    done = await optimize(make_optimizer(name), at, SMALL[name])
    assert done.nominees[-1]["parse"] or done.nominees


async def test_gepa_gives_up_on_a_task_that_never_scores():
    at = host(Raising)
    done = await optimize(Gepa(), at, {"patience": 9})
    assert "9 proposals" in done.reason


def test_a_timeout_counts_in_the_mean():
    one_of_twelve = [ok(1.0), *(Result("train/1", Status.TIMEOUT) for _ in range(11))]
    for floor in (None, 0.0):
        assert score_of(one_of_twelve, floor) < score_of([ok(0.5)] * 12, floor)


def test_a_crash_never_beats_a_negative_score():
    crash = [Result("train/1", Status.AGENT_ERROR)]
    for floor in (None, -1.0):
        assert score_of(crash, floor) < score_of([ok(-0.5)], floor)


def test_an_infra_error_is_no_measurement():
    with_infra = [ok(0.5), Result("train/1", Status.INFRA_ERROR)]
    assert score_of(with_infra, None) == score_of([ok(0.5)], None)


def test_train_and_val_never_share_a_measurement():
    pool = Pool()
    pool.add({"a": "x"})
    train, val = questions(1, 1), questions(1, 1, "val")
    assert train[0].id == val[0].id
    pool.record(0, [Result(train[0].key, Status.OK, 1.0)])
    assert pool.on(0, train) == [1.0]
    assert pool.on(0, val) == [None]


async def test_the_hosts_keys_tell_train_from_val():
    at = host(train=questions(30, 1), val=questions(30, 1, "val"))
    texts = {slot.name: slot.text for slot in at.slots}
    train = await at.evaluate(texts, at.train, "t")
    val = await at.evaluate(texts, at.val, "t")
    assert at.used() == 60
    assert [r.score for r in train] != [r.score for r in val]


@pytest.mark.parametrize("more", [{}, {"per_step": 24}])
async def test_proposals_in_flight_together_end_the_same_however_long_each_takes(more):
    config = {"parallel": 6, "iterations": 48, "patience": 48, **more}
    ends = [await optimize(Gepa(), host(Jittery, jitter=jitter), config) for jitter in (1, 2)]
    assert ends[0] == ends[1]
    assert ends[0].state["n"] == 48
    assert len(ends[0].state["pool"]) > 1


async def test_concurrent_proposals_stay_within_the_budget():
    at = host(Jittery, rollouts=200)
    done = await optimize(Gepa(), at, {"parallel": 4, "per_step": 8})
    assert at.used() <= 200
    assert "budget" in done.reason


async def test_a_merge_of_candidates_without_any_score_is_no_error():
    at = host()
    optimizer = Gepa()
    state = await advance(optimizer, at, {**SMALL["gepa"], "merge_every": 1}, None)
    seed = dict(state["pool"][0], scores={one.key: [0.0] for one in at.val})
    texts = [{**seed["texts"], "parse": f"p{n}", "answer": f"a{n}"} for n in (1, 2)]
    state["pool"] = [seed, *({**seed, "texts": text, "parents": [0]} for text in texts)]
    after = await advance(optimizer, at, {}, state)
    assert after["n"] == 1


async def test_merge_takes_each_slot_from_the_one_that_changed_it():
    at = host()
    optimizer = Gepa()
    state = await advance(optimizer, at, {**SMALL["gepa"], "merge_every": 1}, None)
    base = state["pool"][0]
    one = {**base, "parents": [0], "texts": {**base["texts"], "parse": "Solve units"}}
    two = {**base, "parents": [0], "texts": {**base["texts"], "answer": "Solve ties"}}
    state["pool"] = [base, one, two]
    after = await advance(optimizer, at, {}, state)
    assert after["pool"][-1]["texts"] == {**base["texts"], "parse": "Solve units", "answer": "Solve ties"}


def test_a_playbook_is_bounded_and_holds_nothing_twice():
    book = Playbook([], most=5, chars=60)
    for n in range(200):
        book.add(f"- lesson number {n}", n)
        book.add(f"lesson  number {n}.", n)
    assert len(book.bullets) <= 5
    assert sum(len(b["text"]) + 3 for b in book.bullets) <= 60
    assert len({b["text"] for b in book.bullets}) == len(book.bullets)


async def test_the_playbook_in_the_slot_stays_under_its_cap():
    at = host()
    done = await optimize(make_optimizer("ace"), at, {"steps": 12, "batch": 6, "most_bullets": 1})
    assert all(text["parse"].count("\n") <= 1 for text in done.nominees)


def test_additions_are_read_from_json_or_dashes():
    assert additions('Here: [{"op": "add", "text": "a"}]') == ["a"]
    assert additions("- a\nb\n- c") == ["- a", "- c"]
    assert additions(None) == []
    assert additions("[1, 2]") == []


def test_combee_groups_read_every_record_twice():
    found = groups(list(range(10)), stream(0, "g"))
    assert len(found) == 3
    assert sorted(n for group in found for n in group) == sorted([*range(10), *range(10)])
    assert groups([], stream(0, "g")) == []


def test_combee_batch_size_follows_the_fitted_delay():
    a, alpha = fit_delay([(b, 100 * b**-0.5) for b in (1, 4, 16)])
    assert (a, alpha) == pytest.approx((100, 0.5))
    assert batch_size(100, 0.5, 0.5, 10**6) == round((0.5 * 100 / 0.5) ** (1 / 1.5))
    assert batch_size(100, -0.1, 0.5, 64) == 1
    assert batch_size(1e9, 0.5, 0.001, 64) == 64


async def test_concurrent_reservations_never_pass_the_limit():
    at = host(rollouts=10)
    texts = {slot.name: slot.text for slot in at.slots}
    await at.evaluate(texts, at.train[:8], "a")
    with pytest.raises(BudgetError):
        await at.evaluate(texts, at.train[:8], "b")
    assert at.used() == 8


@pytest.mark.parametrize("name", NAMES)
async def test_an_unknown_setting_is_named(name):
    with pytest.raises(InputError, match="nonsense"):
        await make_optimizer(name).start(host(), {"nonsense": 1})


async def test_names_of_the_other_apo_are_taken():
    config = {"max_iterations": 1, "beam_width": 3, "enable_gradient_memory": True, "min_improvement_threshold": 0.01}
    done = await optimize(make_optimizer("apo"), host(), {**config, "score_threshold": 0.95})
    assert done.state["settings"]["beam_rounds"] == 1
    assert done.state["memory"]


async def test_apo_stops_at_its_target_and_when_stale():
    reached = await optimize(make_optimizer("apo"), host(), {"score_threshold": 0.01})
    assert "target" in reached.reason
    stale = await optimize(
        make_optimizer("apo"), host(), {"beam_rounds": 30, "patience": 2, "min_improvement_threshold": 0.5}
    )
    assert "in a row" in stale.reason


async def test_with_a_critic_wrong_half_the_time_the_gate_still_gains():
    means = {}
    for wrong in (0.0, 0.5):
        ends = []
        for seed in range(20):
            at = host(seed=seed, critic=PromptCritic(wrong=wrong))
            done = await optimize(make_optimizer("textgrad"), at, {"steps": 8, "minibatch": 12})
            ends.append(at.world.accuracy(done.nominees[0]))
        means[wrong] = sum(ends) / len(ends)
    assert 0.4 < means[0.5] < means[0.0]


async def test_aces_batch_grows_to_what_combee_says():
    at = host(train=questions(60, 1))
    done = await optimize(make_optimizer("ace"), at, {"steps": 5, "batch": 4, "tau": 0.5})
    sizes = [int(records) for records, _ in done.state["paces"]]
    assert sizes[:2] == [4, 8]
    a, alpha = fit_delay([(records, words) for records, words in done.state["paces"][:2]])
    assert sizes[2] == max(4, batch_size(a, alpha, 0.5, 60)) > 8
    steady = await optimize(make_optimizer("ace"), host(train=questions(60, 1)), {"steps": 5, "batch": 4})
    assert "paces" not in steady.state
    assert "tau" not in steady.state["settings"]
