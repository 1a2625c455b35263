"""Engines as the docker client finds them: real sockets, TLS and an ssh that is played, before the real engine."""

import hashlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import warnings
from pathlib import Path

import pytest
from support.doorway import Doorway
from support.engine import gone, image, needs_docker

from harness.box import endpoint, engine
from harness.box.base import BoxSpec
from harness.box.docker import DockerBoxes
from harness.box.endpoint import endpoints
from harness.errors import BoxUnavailableError, MissingEnvironmentError
from harness.testing.box_contract import python


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch, tmp_path):
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


def context(home, name, host, *, current=False, skip=False, certificates=None):
    mark = hashlib.sha256(name.encode()).hexdigest()
    meta = home / ".docker/contexts/meta" / mark
    meta.mkdir(parents=True)
    told = {"Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": host, "SkipTLSVerify": skip}}}
    (meta / "meta.json").write_text(json.dumps(told))
    if certificates is not None:
        folder = home / ".docker/contexts/tls" / mark / "docker"
        folder.mkdir(parents=True)
        for file in ("ca.pem", "cert.pem", "key.pem"):
            shutil.copy(certificates / file, folder / file)
    if current:
        (home / ".docker/config.json").write_text(json.dumps({"currentContext": name}))


def urls():
    return [found.url for found in endpoints()]


def test_docker_host_comes_before_a_context(nothing_named, monkeypatch):
    context(nothing_named, "there", "tcp://there:2376", current=True)
    assert urls() == ["tcp://there:2376"]
    context(nothing_named, "elsewhere", "unix:///elsewhere.sock")
    monkeypatch.setenv("DOCKER_CONTEXT", "elsewhere")
    assert urls() == ["unix:///elsewhere.sock"]
    monkeypatch.setenv("DOCKER_HOST", "unix:///named.sock")
    assert urls() == ["unix:///named.sock"]


def test_another_config_folder_has_its_own_contexts(nothing_named, monkeypatch, tmp_path):
    (tmp_path / "other").mkdir()
    shutil.move(_with_context(nothing_named), tmp_path / "other" / "docker")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "other" / "docker"))
    assert urls() == ["tcp://there:1"]


def _with_context(home):
    context(home, "there", "tcp://there:1", current=True)
    return home / ".docker"


@pytest.mark.parametrize("spoil", ["missing", "torn", "empty"])
def test_a_context_that_cannot_be_used_is_said_and_no_other_engine_taken(nothing_named, monkeypatch, spoil):
    context(nothing_named, "there", "tcp://there:1", current=True)
    (meta,) = nothing_named.glob(".docker/contexts/meta/*/meta.json")
    if spoil == "missing":
        meta.unlink()
    else:
        meta.write_text("{" if spoil == "torn" else json.dumps({"Endpoints": {}}))
    with pytest.raises(MissingEnvironmentError) as caught:
        endpoints()
    assert "docker context use default" in caught.value.mend


def test_certificates_of_a_context_and_of_the_environment(nothing_named, monkeypatch, tmp_path):
    for file in ("ca.pem", "cert.pem", "key.pem"):
        (tmp_path / file).write_text("x")
    context(nothing_named, "there", "tcp://there:1", current=True, skip=True, certificates=tmp_path)
    (found,) = endpoints()
    assert found.tls is not None
    assert (found.tls.verify, found.tls.key.name) == (False, "key.pem")
    monkeypatch.setenv("DOCKER_HOST", "tcp://there:1")
    assert endpoints()[0].tls is None
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    tls = endpoints()[0].tls
    assert (tls.verify, tls.ca, tls.cert) == (True, tmp_path / "ca.pem", tmp_path / "cert.pem")


def test_sockets_of_a_rootless_engine_and_of_desktop_are_found_when_served(nothing_named, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    rootless, desktop = tmp_path / "docker.sock", nothing_named / ".docker/desktop/docker.sock"
    desktop.parent.mkdir(parents=True)
    before = endpoint.sockets()
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as two:
        for door, place in ((one, rootless), (two, desktop)):
            door.bind(str(place))
        assert endpoint.sockets() == before  # they are there and nobody listens
        one.listen()
        two.listen()
        assert endpoint.sockets() == [*before, f"unix://{rootless}", f"unix://{desktop}"]


def as_a_stranger(program):
    """Run `program` as a uid that owns nothing, in a fork; the text that it leaves."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            program()
        except BaseException as error:
            said = f"{type(error).__name__}: {error} {getattr(error, 'mend', '')}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, encoding="utf-8") as said:
        return said.read()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("named", [False, True])
def test_a_socket_that_is_denied_is_said_and_not_that_there_is_no_engine(monkeypatch, named):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as door:
        Path(folder).chmod(0o755)
        monkeypatch.setenv("HOME", folder)
        path = Path(folder) / "docker.sock"
        door.bind(str(path))
        door.listen()
        path.chmod(0o660)
        monkeypatch.setattr(endpoint, "_places", lambda: [path])
        if named:
            monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        said = as_a_stranger(engine.connect)
    assert f"permission denied at unix://{path}" in said
    assert "join the group docker" in said


def test_an_engine_that_says_nothing_is_given_up_soon_and_said_plainly(monkeypatch, tmp_path):
    monkeypatch.setattr(engine, "DIAL_S", 1.0)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "s"))
        door.listen()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 's'}")
        with pytest.raises(MissingEnvironmentError, match="named by DOCKER_HOST: it does not answer in time"):
            engine.connect()


async def works(owner):
    boxes = DockerBoxes(image())
    await boxes.prepare()
    async with boxes.open(BoxSpec(owner=owner)) as box:
        big = await python(box, "print('x' * 300_000)", stdin=bytes(300_000))
        assert len(big.stdout) == 300_001
    assert gone(owner)


@needs_docker()
async def test_an_engine_at_a_rootless_socket_opens_boxes(nothing_named, monkeypatch, tmp_path):
    door = Doorway(tmp_path / "docker.sock")
    door.open()
    context(nothing_named, "rootless", f"unix://{door.path}", current=True)
    try:
        await works(f"rootless-{os.getpid()}")
        assert door.served
    finally:
        door.close()


@pytest.fixture
def certificates(tmp_path):
    """A certificate authority, and one pair that serves and calls, as `docker --tlsverify` has them."""
    folder = tmp_path / "certificates"
    folder.mkdir()
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")

    def run(*words):
        subprocess.run(words, cwd=folder, check=True, capture_output=True)

    new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    run(*new, "-x509", "-days", "2", "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem")
    run(*new, "-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "request")
    sign = ["openssl", "x509", "-req", "-in", "request", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"]
    run(*sign, "-days", "2", "-extfile", "names", "-out", "cert.pem")
    return folder


class Guarded(Doorway):
    """The doorway on a TCP port, for callers with a certificate of ours alone."""

    def __init__(self, folder):
        super().__init__(folder / "unused")
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        self.tls.load_verify_locations(folder / "ca.pem")
        self.tls.verify_mode = ssl.CERT_REQUIRED
        self.port = 0

    def open(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._guard, daemon=True).start()

    def _guard(self):
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            try:
                self._serve(self.tls.wrap_socket(plain, server_side=True))
            except (ssl.SSLError, OSError):
                plain.close()


@needs_docker()
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
async def test_an_engine_behind_tls_opens_boxes_and_refuses_a_stranger(
    nothing_named, monkeypatch, certificates, tmp_path
):
    door = Guarded(certificates)
    door.open()
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", ssl.get_default_verify_paths().openssl_cafile)
    try:
        context(nothing_named, "tls", f"tcp://127.0.0.1:{door.port}", current=True, certificates=certificates)
        await works(f"tls-{os.getpid()}")
        (nothing_named / ".docker/config.json").unlink()
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{door.port}")
        monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
        monkeypatch.setenv("DOCKER_CERT_PATH", str(certificates))
        await works(f"tls-{os.getpid()}")
        (certificates / "cert.pem").unlink()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # the SDK's, of a refused handshake
            with pytest.raises(BoxUnavailableError):
                await DockerBoxes(image()).prepare()
    finally:
        door.close()


SSH = """#!/bin/sh
echo "$*" >> {log}
unset DOCKER_HOST
exec docker system dial-stdio
"""


@needs_docker()
@pytest.mark.skipif(shutil.which("docker") is None, reason="the other end of ssh is the docker client")
async def test_an_engine_behind_ssh_opens_boxes(monkeypatch, tmp_path):
    ssh, log = tmp_path / "bin" / "ssh", tmp_path / "log"
    ssh.parent.mkdir()
    ssh.write_text(SSH.format(log=log))
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_HOST", "ssh://someone@there:2222")
    await works(f"ssh-{os.getpid()}")
    said = set(log.read_text().splitlines())
    assert said == {"-l someone -p 2222 -T -o BatchMode=yes -- there docker system dial-stdio"}


def test_an_ssh_host_that_is_an_option_is_refused(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "ssh://-oProxyCommand=x")
    with pytest.raises(MissingEnvironmentError):
        engine.connect()
