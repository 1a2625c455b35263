import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli.settings import find_subject, gather, parse, policy_path, seconds
from harness.errors import InputError

NOTHING = {"agent": None, "steps": None, "rollouts": None, "wall": None, "box": None}


@pytest.mark.parametrize(
    ("setting", "key", "value"),
    [
        ("budget.steps=20", "budget.steps", 20),
        ("gate.alpha = 0.01", "gate.alpha", 0.01),
        ("agent.name=mod:Name", "agent.name", "mod:Name"),
        ('agent.config.paths=["a", "b"]', "agent.config.paths", ["a", "b"]),
        ("x=true", "x", True),
        ("x=a=b", "x", "a=b"),
        ("x=", "x", ""),
        ("x=1\ny = 2", "x", "1\ny = 2"),
    ],
)
def test_values_are_toml_where_they_are_and_text_where_not(setting, key, value):
    assert parse(setting) == (key, value)


@pytest.mark.parametrize("setting", ["steps", "=3", "a b=3", "a..b=3", ".a=3"])
def test_what_is_no_setting_is_an_input_error(setting):
    with pytest.raises(InputError, match="KEY=VALUE"):
        parse(setting)


@given(st.text(max_size=40))
def test_no_text_does_anything_but_parse_or_refuse(text):
    try:
        key, _ = parse(text)
    except InputError:
        return
    assert text.strip().startswith(key)


@pytest.mark.parametrize(("text", "value"), [("90", 90), ("1.5s", 1.5), ("30m", 1800), ("8h", 28_800)])
def test_times(text, value):
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "-3", "h", "3d", "1e5", "nan", "١"])
def test_what_is_no_time_is_an_input_error(text):
    with pytest.raises(InputError, match="not a time"):
        seconds(text)


@pytest.mark.parametrize(("name", "value"), [("steps", 0), ("rollouts", -1), ("wall", "0s")])
def test_a_budget_of_nothing_names_its_flag(name, value):
    with pytest.raises(InputError, match=f"--{name}: must be"):
        gather([], **{**NOTHING, name: value})


def test_options_become_policy_keys():
    found = gather(["gate.pairs=6"], agent="search", steps=3, rollouts=9, wall="1m", box="embedded")
    assert found == {
        "agent.name": "search",
        "budget.steps": 3,
        "budget.rollouts": 9,
        "budget.wall_s": 60.0,
        "box.backend": "embedded",
        "gate.pairs": 6,
    }
    assert gather([], **NOTHING) == {}


def test_a_key_set_twice_is_refused():
    with pytest.raises(InputError, match="twice"):
        gather(["budget.steps=3"], **{**NOTHING, "steps": 4})


def test_a_policy_file_is_looked_for_where_the_command_was_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text("")
    assert policy_path("mine.toml") == str(tmp_path / "mine.toml")
    assert policy_path("other.toml") == "other.toml"
    assert policy_path("guarded") == "guarded"
    assert policy_path(None) is None


def test_a_missing_subject_says_what_to_do(tmp_path):
    with pytest.raises(InputError) as caught:
        find_subject(tmp_path / "nothing")
    assert "strop init" in caught.value.mend
    with pytest.raises(InputError) as caught:
        find_subject(tmp_path / "digits")
    assert "starter subject" in caught.value.mend
