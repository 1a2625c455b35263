"""The docker engine and an image that tests may use. A laptop without one skips; CI must have one."""

import gc
import os
import time
import warnings
from contextlib import contextmanager
from functools import cache

import pytest

from harness.box import engine
from harness.errors import MissingEnvironmentError

_KNOWN = ("strop-box", "strop-base:bookworm")


@contextmanager
def client():
    """The SDK leaves its sockets to the collector, which would blame whatever test runs then: collect them here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        api = engine.connect(20)
        try:
            yield api
        finally:
            api.close()


def containers(owner):
    """Those of the engine at hand, whatever DOCKER_HOST says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DOCKER_HOST", raising=False)
        with client() as api:
            return api.containers(all=True, filters={"label": f"strop.owner={owner}"})


def gone(owner, seconds=30):
    """Whether no container of `owner` is left, when the engine has had its time."""
    deadline = time.monotonic() + seconds
    while containers(owner):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@cache
def image(*, small=False):
    """An image with a Python, or None: STROP_TEST_IMAGE, or one of ours that the engine has; the small one first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        found = _image([os.environ.get("STROP_TEST_IMAGE"), *(reversed(_KNOWN) if small else _KNOWN)])
        gc.collect()
    return found


def _image(names):
    try:
        with client() as api:
            for name in names:
                if name and api.images(name):
                    return name
    except (MissingEnvironmentError, ImportError):
        return None
    return None


def needs_docker():
    """A mark for a module: skip without an engine and an image, but fail in CI."""
    missing = image() is None
    if missing and os.environ.get("CI") == "true":
        pytest.fail("CI has no docker engine with an image: see .ci/run", pytrace=False)
    return pytest.mark.skipif(missing, reason="no docker engine here with strop-box, strop-base or STROP_TEST_IMAGE")
