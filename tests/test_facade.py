import subprocess
import sys

import pytest

import harness


def test_exports_are_all_there():
    for name in harness.__all__:
        assert getattr(harness, name) is not None


def test_all_names_exactly_what_is_served():
    assert set(harness.__all__) == {*harness._HOME, "__version__"}


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = harness.nonsense


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, harness; print([m for m in ('numpy', 'git', 'pydantic', 'plotly', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
