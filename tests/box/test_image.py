import tarfile

import pytest
from support.engine import client, image, needs_docker

from harness.box.base import BoxSpec
from harness.box.docker import DockerBoxes
from harness.box.image import _Closure, build, import_rootfs
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
