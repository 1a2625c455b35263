import pytest

from harness.cli.arguments import split_run
from harness.errors import InputError


@pytest.mark.parametrize(
    ("names", "most", "run", "variants"),
    [
        ([], 2, None, []),
        (["v3"], 1, None, ["v3"]),
        (["t3"], 1, None, ["t3"]),
        (["best"], 2, None, ["best"]),
        (["digits-2026", "v3"], 1, "digits-2026", ["v3"]),
        (["last", "root", "best"], 2, "last", ["root", "best"]),
        (["v3", "v5"], 2, None, ["v3", "v5"]),
    ],
)
def test_a_first_word_that_looks_like_a_variant_is_one(names, most, run, variants):
    assert split_run(names, most) == (run, variants)


def test_too_many_words_are_refused():
    with pytest.raises(InputError, match="too many"):
        split_run(["last", "v1", "v2"], most=1)
