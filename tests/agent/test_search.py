"""The search agent: deterministic, never twice the same tree, and better than chance."""

from __future__ import annotations

import ast
import json
import math

import pytest
from asks import ask_of, attempt_of, climb, propose, tree_of

from harness.agent.search import SearchAgent
from harness.errors import InputError
from harness.records import Verdict
from harness.tree import Tree

SCRIPT = """\
RATE = 0.01
WIDTH = 4
KIND = "plain"
FAST = False
DROPOUT = 0.5


def run(kind):
    if kind == "fancy":
        return 1
    return 2


run(KIND)
"""


def settings(tree):
    """Module constants of train.py, read as the agent reads them: without running anything."""
    module = ast.parse(tree["train.py"].data)
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in module.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def bowl(tree):
    """A smooth loss with its least value at RATE 0.3, WIDTH 64, KIND fancy, FAST, DROPOUT 0.1."""
    now = settings(tree)
    return (
        (math.log(now["RATE"] / 0.3)) ** 2
        + math.log(now["WIDTH"] / 64) ** 2
        + (math.log(now["DROPOUT"] / (1 - now["DROPOUT"])) + math.log(9)) ** 2
        + 2.0 * (now["KIND"] != "fancy")
        + 1.0 * (not now["FAST"])
    )


def test_the_same_ask_gives_the_same_proposal():
    tree = tree_of(train=SCRIPT)
    first, second = (propose(SearchAgent({}), ask_of(tree, seed=3)) for _ in range(2))
    assert first == second
    others = {propose(SearchAgent({}), ask_of(tree, seed=seed)).note for seed in range(20)}
    assert len(others) > 5


def test_a_proposal_says_what_it_changed_and_remembers_it_as_json():
    tree = tree_of(train=SCRIPT)
    proposal = propose(SearchAgent({"pairs": 0.0}), ask_of(tree))
    memo = json.loads(json.dumps(proposal.memo, allow_nan=False))
    (move,) = memo["moves"]
    assert proposal.note == f"train.py: {move['knob'].split('::')[1]} {move['was']} -> {move['now']}"
    assert list(proposal.changes) == ["train.py"]
    assert settings(tree)[move["knob"].split("::")[1]] == move["old"]
    assert settings(tree.changed(proposal.changes))[move["knob"].split("::")[1]] == move["new"]


def test_no_tree_is_proposed_twice_and_the_root_is_not_proposed_again():
    for seed in range(2):
        tree = tree_of(train=SCRIPT)
        _, tried = climb(SearchAgent({}), tree, bowl, 40, seed)
        assert len(tried) == 40
        assert len({one.digest for one in [tree, *tried]}) == 41


def test_tickets_under_way_at_once_do_not_propose_the_same():
    tree = tree_of(train="FAST = False\nRATE = 0.1\nWIDTH = 4\n")
    for first in range(1, 30):
        asks = [ask_of(tree, ticket=ticket, in_flight=4) for ticket in range(first, first + 4)]
        assert len({tree.changed(propose(SearchAgent({}), ask).changes).digest for ask in asks}) == 4


def test_a_ticket_without_a_tree_of_its_own_takes_anothers():
    tree = tree_of(train="FAST = False\n")
    assert all(propose(SearchAgent({}), ask_of(tree, ticket=ticket, in_flight=64)) for ticket in range(1, 65))


def test_a_small_space_is_exhausted_and_then_left():
    tree = tree_of(train="FAST = False\nKIND = 'a'\nprint(KIND in ('a', 'b', 'c'))\n")
    history, seen = [], set()
    for ticket in range(1, 20):
        proposal = propose(SearchAgent({"pairs": 0.0}), ask_of(tree, history, ticket))
        if proposal is None:
            break
        seen.add(tree.changed(proposal.changes)["train.py"].data.decode().split("\nprint")[0])
        history.append(attempt_of(proposal, ticket))
    assert seen == {"FAST = True\nKIND = 'a'", "FAST = False\nKIND = 'b'", "FAST = False\nKIND = 'c'"} | {
        "FAST = True\nKIND = 'b'",
        "FAST = True\nKIND = 'c'",
    }
    assert proposal is None


@pytest.mark.parametrize(
    "tree",
    [
        Tree(),
        tree_of(train="def broken(:\n"),
        tree_of(train=b"\xff\xfe\x00"),
        tree_of(train="# nothing to turn\n"),
        tree_of(train="SEED = 3\n__version__ = '1.2'\n"),
    ],
)
def test_nothing_to_turn_is_no_proposal(tree):
    assert propose(SearchAgent({}), ask_of(tree)) is None


def test_only_editable_python_files_are_touched():
    tree = tree_of(train="RATE = 0.1\n", locked="RATE = 0.2\n", broken="RATE = = 1\n")
    for seed in range(20):
        proposal = propose(SearchAgent({}), ask_of(tree, seed=seed, is_editable=lambda path: path != "locked.py"))
        assert list(proposal.changes) == ["train.py"]


def test_only_and_skip_choose_the_knobs():
    tree = tree_of(train=SCRIPT)
    notes = {
        propose(SearchAgent({"only": ["*RATE", "WIDTH"], "skip": ["W*"]}), ask_of(tree, seed=s)).note for s in range(9)
    }
    assert all(note.startswith("train.py: RATE ") and ";" not in note for note in notes)


@pytest.mark.parametrize("learn", ["model", "bandit"])
def test_it_learns(learn):
    """From the same budget the history-blind search ends several times higher."""
    tree = tree_of(train=SCRIPT)
    learned, blind = (
        [climb(SearchAgent({"learn": how}), tree, bowl, 30, seed)[0][-1] for seed in range(5)]
        for how in (learn, "none")
    )
    assert sum(learned) < 0.6 * sum(blind)
    assert max(learned) < 0.15 * bowl(tree)


def test_a_way_that_paid_is_gone_on_with_and_one_that_hurt_is_turned():
    tree = tree_of(train="RATE = 0.01\n")
    agent = SearchAgent({"pairs": 0.0})
    first = propose(agent, ask_of(tree))
    way = first.memo["moves"][0]["way"]
    kept = [attempt_of(first, 1, Verdict.KEPT, 0.5, 1.0)]
    hurt = [attempt_of(first, 1, Verdict.DISCARDED, 2.0, 1.0)]

    def share(history, base):
        asks = (ask_of(base, history, 2, seed) for seed in range(60))
        return sum(propose(agent, ask).memo["moves"][0]["way"] == way for ask in asks) / 60

    assert share(kept, tree.changed(first.changes)) > 0.75
    assert share(hurt, tree) < 0.4


def test_histories_of_other_agents_and_odd_memos_are_harmless():
    tree = tree_of(train=SCRIPT)
    proposal = propose(SearchAgent({}), ask_of(tree))
    odd = [{}, {"moves": 3}, {"moves": [1, {}]}, {"moves": [{"knob": 1}], "tree": 5}]
    history = [
        attempt_of(type(proposal)(memo=memo), ticket, verdict, score)
        for ticket, (memo, verdict, score) in enumerate(
            (memo, verdict, score) for memo in odd for verdict in Verdict for score in (None, 1.0)
        )
    ]
    assert propose(SearchAgent({}), ask_of(tree, history, 99)) is not None


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"pears": 0.1}, "policy.agent.config.pears"),
        ({"pairs": 2.0}, "policy.agent.config.pairs"),
        ({"stride": 0.0}, "policy.agent.config.stride"),
        ({"skip": 3}, "policy.agent.config.skip"),
        ({"learn": "magic"}, "policy.agent.config.learn"),
    ],
)
def test_a_bad_setting_names_its_key(config, key):
    with pytest.raises(InputError) as caught:
        SearchAgent(config)
    assert caught.value.key == key
    assert "pairs" in caught.value.mend
