import pytest
from support.engine import image, needs_docker

from harness.box import choose as choosing
from harness.box.choose import choose


def test_auto_is_isolated_and_never_process():
    boxes = choose("auto")
    assert boxes.isolated
    assert boxes.name != "process"


@pytest.mark.parametrize("name", ["docker", "embedded", "process"])
def test_each_by_name(name):
    assert choose(name).name == name


def test_auto_without_an_engine_is_embedded(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    assert choose("auto").name == "embedded"
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(choosing.endpoint, "sockets", list)
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    assert choose("auto").name == "embedded"


@needs_docker()
def test_auto_is_docker_only_with_an_image_that_the_engine_has():
    assert choose("auto", image()).name == "docker"
    assert choose("auto", "no-such-image").name == "embedded"
