"""What a hosted optimizer says on a machine without its package."""

import pytest

from harness.errors import MissingEnvironmentError
from harness.optimizer.registry import HOSTED, make_optimizer
from harness.testing.prompt_host import SimulatedHost


def missing(name):
    raise ImportError(name)


@pytest.mark.parametrize("name", sorted(HOSTED))
async def test_without_the_package_it_says_what_to_install(monkeypatch, name):
    optimizer = make_optimizer(name)
    optimizer.check({})
    monkeypatch.setattr(f"{type(optimizer).__module__}.import_module", missing)
    extra = name.removesuffix("-package")
    with pytest.raises(MissingEnvironmentError, match=rf"strop\[{extra}\]"):
        await optimizer.start(SimulatedHost(), {})
