from importlib.util import find_spec

import pytest

from harness.box.choose import choose
from harness.errors import BoxUnavailableError


def test_auto_is_isolated_and_never_process():
    boxes = choose("auto")
    assert boxes.isolated
    assert boxes.name != "process"


def test_each_by_name():
    assert choose("embedded").name == "embedded"
    assert choose("process").name == "process"


@pytest.mark.skipif(find_spec("harness.box.docker") is not None, reason="this version has it")
def test_what_is_not_here_says_so():
    with pytest.raises(BoxUnavailableError) as caught:
        choose("docker")
    assert caught.value.mend
