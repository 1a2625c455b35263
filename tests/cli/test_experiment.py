import pytest

from harness.cli.experiment import read_experiment
from harness.errors import InputError
from harness.policy.load import override
from harness.policy.schema import Policy
from harness.research.optimize.agent import OptimizerAgent

FLAT = """
optimizer: apo
score_threshold: 0.95
max_iterations: 30
min_improvement_threshold: 0.01
gradient_model: small
editor_model: large
evaluator_model: small
beam_width: 3
enable_beam_search: true
enable_gradient_memory: true
enable_prompt_candidates: true
enable_gradient_mini_batch: true
budget:
  rollouts: 500
models:
  small: {base_url: "http://127.0.0.1:1/v1"}
"""


def test_a_flat_yaml_file_sets_the_optimizer_and_the_policy(tmp_path):
    pytest.importorskip("yaml")
    path = tmp_path / "function_calling.yaml"
    path.write_text(FLAT)
    policy = override(Policy(), read_experiment(path))
    assert policy.agent.name == "apo"
    assert policy.budget.rollouts == 500
    assert policy.models["small"].base_url == "http://127.0.0.1:1/v1"
    agent = OptimizerAgent.of(policy.agent.name, policy.agent.config)
    assert (agent.settings.gradient_model, agent.settings.editor_model) == ("small", "large")
    assert agent.config["score_threshold"] == 0.95


def test_a_toml_file_with_tables(tmp_path):
    path = tmp_path / "one.toml"
    path.write_text('[agent]\nname = "gepa"\n[agent.config]\nminibatch = 4\n[gate]\npairs = 3\n')
    assert read_experiment(path) == {"agent.name": "gepa", "agent.config.minibatch": 4, "gate.pairs": 3}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "a: 1\na: 2\n"),
        ("a.yaml", "x: {a: 1, a: 2}\n"),
        ("a.yaml", "agent: gepa\noptimizer: apo\n"),
        ("a.json", "{}"),
        ("a.yaml", "- 1\n"),
        ("a.yaml", "a: [\n"),
        ("a.toml", "a ="),
    ],
)
def test_what_is_no_experiment_is_named(tmp_path, name, text):
    pytest.importorskip("yaml")
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=name):
        read_experiment(path)
