import pytest

from harness.errors import InputError
from harness.policy.load import load_policy, load_subject, override
from harness.policy.schema import Policy

GOOD = """
[subject]
name = "toy"
editable = ["train.py"]
[eval]
mode = "split"
run = ["python", "train.py"]
score = ["python", "score.py"]
metric = "error"
direction = "min"
range = [0.0, 1.0]
[splits]
visible = "data/visible"
holdout = "data/holdout"
vault = "data/vault"
[policy]
use = "guarded"
budget.steps = 7
"""


def write(folder, text):
    (folder / "strop.toml").write_text(text)
    return folder


def test_a_good_file_loads_and_its_overrides_win(tmp_path):
    loaded = load_subject(write(tmp_path, GOOD))
    assert loaded.file.subject.name == "toy"
    assert loaded.policy.budget.steps == 7
    assert loaded.policy.gate.alpha == 0.05


def test_overrides_from_the_command_line_win_over_the_file(tmp_path):
    loaded = load_subject(write(tmp_path, GOOD), overrides={"budget.steps": 3, "schedule.workers": 4})
    assert (loaded.policy.budget.steps, loaded.policy.schedule.workers) == (3, 4)


@pytest.mark.parametrize(
    ("old", "new", "key", "word"),
    [
        ('direction = "min"', "", "eval.direction", "missing"),
        ('name = "toy"', 'name = "toy"\ncolour = 1', "subject.colour", "unknown key"),
        ("budget.steps = 7", "budget.stepz = 7", "policy.budget.stepz", "unknown key"),
        ("budget.steps = 7", "budget.steps = 0", "policy.budget.steps", "must be at least 1"),
        ("budget.steps = 7", "gate.alpha = 2.0", "policy.gate.alpha", "less than 1"),
        ('use = "guarded"', 'use = "nonsense"', "policy.use", "no policy called"),
        ('direction = "min"', 'direction = "down"', "eval.direction", "'min' or 'max'"),
        ("range = [0.0, 1.0]", "range = [1.0, 0.0]", "eval.range", "lower one first"),
        ("range = [0.0, 1.0]", "range = [0.0, inf]", "eval.range.1", "finite"),
        ('score = ["python", "score.py"]', "", "eval", "needs a `score` command"),
        ('mode = "split"', 'mode = "inline"', "eval", "no scorer box"),
        ("editable = [", "editable = 3 # [", "subject.editable", "must be a list"),
        ('run = ["python", "train.py"]', "run = []", "eval.run", "at least 1"),
        ('editable = ["train.py"]', "editable = []", "subject.editable", "name at least one path"),
        ("budget.steps = 7", "budget.wall_s = nan", "policy.budget.wall_s", "not a number"),
        ("budget.steps = 7", 'budget.steps = "many"', "policy.budget.steps", "a whole number"),
        ("budget.steps = 7", 'budget.steps = "7"', "policy.budget.steps", "a whole number"),
        ("budget.steps = 7", "budget.steps = true", "policy.budget.steps", "a whole number"),
        ("budget.steps = 7", "budget.wall_s = true", "policy.budget.wall_s", "a number"),
        ("budget.steps = 7", "budget.wall_s = inf", "policy.budget.wall_s", "finite"),
        ("budget.steps = 7", "budget.usd = inf", "policy.budget.usd", "finite"),
        ("budget.steps = 7", "gate.min_effect = 1e400", "policy.gate.min_effect", "finite"),
        ("budget.steps = 7", "gate.simplicity = 1", "policy.gate.simplicity", "true or false"),
        ('direction = "min"', 'directon = "min"', "eval.directon", "did you mean direction"),
    ],
)
def test_one_clear_error_names_file_key_and_mend(tmp_path, old, new, key, word):
    assert old in GOOD
    with pytest.raises(InputError) as refused:
        load_subject(write(tmp_path, GOOD.replace(old, new)))
    assert refused.value.key == key
    assert word in str(refused.value)
    assert refused.value.mend
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("text", ["[subject", "a = \x00", "\ufeffx"])
def test_bad_syntax_is_bad_input(tmp_path, text):
    with pytest.raises(InputError, match="not valid TOML"):
        load_subject(write(tmp_path, text))


def test_latin1_is_bad_input(tmp_path):
    (tmp_path / "strop.toml").write_bytes(b"# caf\xe9")
    with pytest.raises(InputError, match="not valid TOML"):
        load_subject(tmp_path)


def test_no_file_and_no_folder_say_what_to_do(tmp_path):
    with pytest.raises(InputError, match="strop init"):
        load_subject(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        load_subject(tmp_path / "gone")


def test_a_policy_file_of_ones_own(tmp_path):
    (tmp_path / "mine.toml").write_text('name = "mine"\n[budget]\nsteps = 5\n')
    policy = load_policy("mine.toml", base=tmp_path, overrides={}, source=tmp_path)
    assert (policy.name, policy.budget.steps) == ("mine", 5)


def test_override_refuses_unknown_keys_and_wrong_types():
    with pytest.raises(InputError, match="unknown key"):
        override(Policy(), {"budget.nonsense": 1})
    with pytest.raises(InputError, match=r"budget\.steps"):
        override(Policy(), {"budget.steps": "many"})
    with pytest.raises(InputError):
        override(Policy(), {"budget": 3})


def test_the_shipped_policies_load(tmp_path):
    from harness.resources import resource

    names = sorted(path.stem for path in resource("policies").glob("*.toml"))
    assert "guarded" in names
    for name in names:
        assert load_policy(name, base=tmp_path, overrides={}, source=tmp_path).name == name


def test_a_policy_that_uses_nothing_new_is_recorded_as_before():
    plain = Policy().model_dump(mode="json")
    assert {"archive", "select", "stages", "models"}.isdisjoint(plain)
    assert set(plain["budget"]) == {"steps", "rollouts", "wall_s"}
    used = Policy.model_validate({"archive": {"mode": "keep_all"}}).model_dump(mode="json")
    assert used["archive"]["mode"] == "keep_all"
    assert "select" not in used


def test_a_file_that_is_no_subject_file_by_its_size(tmp_path):
    (tmp_path / "strop.toml").write_text("# " + "x" * 2**21)
    with pytest.raises(InputError, match="too large"):
        load_subject(tmp_path)


SECRET = "AIzaSyD3moNotAKeyButShapedLikeOne0123"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"base_url": f"http://user:{SECRET}@host/v1"}, "a password or a query"),
        ({"base_url": f"https://host/v1?code={SECRET}"}, "a password or a query"),
        ({"base_url": f"https://host/v1#{SECRET}"}, "a password or a query"),
        ({"base_url": "ftp://host/v1"}, "no http:// or https:// address"),
        ({"base_url": "http://"}, "no http:// or https:// address"),
        ({"base_url": "http://host/v1", "api_key_env": SECRET}, "looks like a key itself"),
        ({"base_url": "http://host/v1", "api_key_env": "sk-" + SECRET}, "no name of an environment variable"),
    ],
)
def test_a_secret_is_no_part_of_a_policy_and_is_not_repeated(model, said):
    with pytest.raises(InputError, match=said) as caught:
        override(Policy(), {"models.m": model})
    assert SECRET not in str(caught.value)


def test_an_address_and_a_variable_are():
    model = {"base_url": "http://[::1]:8000/v1", "api_key_env": "MY_VERY_LONG_OPENAI_API_KEY_2"}
    assert override(Policy(), {"models.m": model}).models["m"].base_url == model["base_url"]


def test_a_value_of_several_kinds_is_told_by_its_key():
    with pytest.raises(
        InputError, match=r"select\.alpha0: must be a number or must be one of 'median' or 'top3'"
    ) as caught:
        override(Policy(), {"select.alpha0": "nope"})
    assert "more)" not in str(caught.value)
