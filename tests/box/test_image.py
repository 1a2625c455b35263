import io
import subprocess
import sys
import tarfile
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from support.engine import client, image, needs_docker

from harness.box import bytecode
from harness.box.base import BoxSpec
from harness.box.docker import DockerBoxes
from harness.box.image import _Closure, _unseen, build, import_rootfs
from harness.errors import InputError, MissingEnvironmentError
from harness.testing.box_contract import python


def test_what_is_no_tar_is_refused(tmp_path):
    (tmp_path / "x.tar").write_text("no tar at all")
    with pytest.raises(InputError):
        import_rootfs("strop-test", tmp_path / "x.tar")


def test_a_tar_that_cannot_be_read_is_said(tmp_path):
    for path, reason in ((tmp_path / "none.tar", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(InputError, match=reason):
            import_rootfs("strop-test", path)


def test_a_closure_holds_each_file_once_where_it_really_lies(tmp_path):
    real = tmp_path / "real"
    (real / "sub").mkdir(parents=True)
    (real / "file").write_text("x")
    (real / "sub" / "secret").write_text("y")
    (real / "sub" / "secret").chmod(0o600)
    (tmp_path / "link").symlink_to("real")
    (real / "loop").symlink_to("loop")
    with tarfile.open(tmp_path / "out.tar", "w") as out:
        closure = _Closure(out)
        closure._tree(str(tmp_path / "link"))
        closure._tree(str(tmp_path / "link" / "sub" / ".." / "file"))
    with tarfile.open(tmp_path / "out.tar") as found:
        names = [member.name for member in found.getmembers()]
        base = str(tmp_path).lstrip("/")
        assert len(names) == len(set(names))
        assert {f"{base}/link", f"{base}/real/file", f"{base}/real/sub/secret", f"{base}/real/loop"} <= set(names)
        assert not [name for name in names if name.startswith(f"{base}/link/")]
        secret = found.getmember(f"{base}/real/sub/secret")
        assert (secret.uid, secret.mode & 0o444) == (0, 0o444)


def library(folder):
    """{module: what becomes of its byte code}, of modules whose caches are each in another state."""
    import py_compile

    modes = py_compile.PycInvalidationMode
    folder.mkdir()
    for name in ("timed", "hashed", "none", "stale", "torn", "lied"):
        (folder / f"{name}.py").write_text(f"VALUE = {name!r}\n")
    for name in ("timed", "stale", "torn"):
        py_compile.compile(str(folder / f"{name}.py"), invalidation_mode=modes.TIMESTAMP)
    for name in ("hashed", "lied"):
        py_compile.compile(str(folder / f"{name}.py"), invalidation_mode=modes.UNCHECKED_HASH)
    for name in ("stale", "lied"):
        (folder / f"{name}.py").write_text(f"VALUE = {name + ', but new'!r}\n")
    torn = Path(cache_from_source(str(folder / "torn.py")))
    torn.write_bytes(torn.read_bytes()[:-5])
    (folder / "broken.py").write_text("VALUE = (\n")
    (folder / "other.cpython-27.pyc").write_text("x")
    (folder / "tests").mkdir()
    (folder / "tests" / "test_x.py").write_text("VALUE = 1\n")


def test_a_closure_holds_byte_code_that_python_uses_and_none_that_it_would_not(tmp_path):
    library(tmp_path / "lib")
    with tarfile.open(tmp_path / "out.tar", "w") as out:
        _Closure(out)._tree(str(tmp_path / "lib"))
    (tmp_path / "root").mkdir()
    subprocess.run(["tar", "-xf", tmp_path / "out.tar", "-C", tmp_path / "root"], check=True)
    here = str(tmp_path / "root") + str(tmp_path / "lib")
    names = ("timed", "hashed", "none", "stale", "torn", "lied")
    code = f"import sys; sys.path.insert(0, {here!r}); print([__import__(name).VALUE for name in {names!r}])"
    done = subprocess.run([sys.executable, "-I", "-v", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['timed', 'hashed', 'none', 'stale, but new', 'torn', 'lied, but new']\n"
    used = {line.split("'")[1] for line in done.stderr.splitlines() if line.startswith("# code object from '" + here)}
    assert used == {cache_from_source(f"{here}/{name}.py") for name in names}
    caches = {path.name.split(".")[0] for path in Path(here).rglob("*.pyc")}
    assert caches == {*names, "other"}  # none of what does not compile, nor of tests


def test_a_closure_of_an_environment_leaves_out_packages_that_it_does_not_see(tmp_path, monkeypatch):
    for name in ("lib/python/site-packages", "lib/python/json"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x.py").write_text("")
    monkeypatch.setattr("sysconfig.get_path", lambda name, vars=None: str(tmp_path / "lib/python/site-packages"))

    def packed():
        with tarfile.open(tmp_path / "out.tar", "w") as out:
            _Closure(out, without=_unseen())._tree(str(tmp_path / "lib"))
        with tarfile.open(tmp_path / "out.tar") as found:
            return {Path(name).parent.name for name in found.getnames() if name.endswith("x.py")}

    assert packed() == {"json"}
    monkeypatch.setattr("sys.path", [str(tmp_path / "lib/python/site-packages")])
    assert packed() == {"json", "site-packages"}


def test_code_that_cannot_be_compiled_stops_no_import(tmp_path):
    for name, text in (("deep", "(" * 3000), ("nul", "a\0b"), ("coded", "# coding: none-such\n"), ("bytes", "\xe9")):
        path = tmp_path / f"{name}.py"
        path.write_bytes(text.encode("latin-1"))
        assert bytecode.cache_of(str(path)) is None
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "gone.py").symlink_to("nowhere")
    assert bytecode.cache_of(str(tmp_path / "folder.py")) is None
    assert bytecode.cache_of(str(tmp_path / "gone.py")) is None


@contextmanager
def bare(tag):
    """The image of the tests without any byte code."""
    file = f"FROM {image(small=True)}\nUSER root\nRUN find / -xdev -name '*.pyc' -delete\n"
    with client() as api:
        for _ in api.build(fileobj=io.BytesIO(file.encode()), tag=tag, network_mode="none", rm=True, forcerm=True):
            pass
        try:
            yield
        finally:
            api.remove_image(tag, force=True)


@needs_docker()
async def test_byte_code_is_missed_and_a_built_image_has_it():
    with bare("strop-test-bare"):
        assert "compiled again" in await bytecode.missing(DockerBoxes("strop-test-bare"))
        build("strop-test-mended", base="strop-test-bare")
        try:
            assert await bytecode.missing(DockerBoxes("strop-test-mended")) == ""
        finally:
            with client() as api:
                api.remove_image("strop-test-mended", force=True)


@needs_docker()
async def test_an_image_is_built_on_any_base_and_opens(tmp_path):
    assert build("strop-test-built", base=image()).startswith("sha256:")
    try:
        async with DockerBoxes("strop-test-built").open(BoxSpec(owner="built")) as box:
            assert (await python(box, "print(6 * 7)")).stdout == b"42\n"
    finally:
        with client() as api:
            api.remove_image("strop-test-built", force=True)
    with pytest.raises(MissingEnvironmentError, match="strop-test-none"):
        build("strop-test-none", base="no-such-base:nowhere")


@needs_docker()
def test_a_root_file_system_becomes_an_image(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "marker").write_text("mine")
    with tarfile.open(tmp_path / "rootfs.tar", "w") as out:
        out.add(tmp_path / "etc", "etc")
    import_rootfs("strop-test-imported:v1", tmp_path / "rootfs.tar", path="/mine")
    with client() as api:
        try:
            assert api.inspect_image("strop-test-imported:v1")["Config"]["Env"] == ["PATH=/mine"]
        finally:
            api.remove_image("strop-test-imported:v1", force=True)
