import sys
from pathlib import Path

from harness.box.bubblewrap import Descriptors, arguments, kept, spelled
from harness.box.prefix import Bind, Python, current_python


def _venv(folder: Path, base: Path) -> Path:
    for part in ("bin", "lib/python3.11/site-packages"):
        (folder / part).mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(f"home = {base / 'bin'}\n")
    (folder / "bin/python").symlink_to(base / "bin/python3")
    return folder / "bin/python"


def _base(folder: Path) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    (folder / "bin/python3.11").touch()
    (folder / "bin/python3").symlink_to("python3.11")
    return folder


def test_an_environment_in_the_projects_own_folder_shows_no_labels(tmp_path, monkeypatch):
    base = _base(tmp_path / "base")
    project = tmp_path / "project"
    executable = _venv(project, base)
    (project / "data/holdout/labels").mkdir(parents=True)
    for name, value in (("executable", executable), ("prefix", project), ("exec_prefix", project)):
        monkeypatch.setattr(sys, name, str(value))
    for name in ("base_prefix", "base_exec_prefix"):
        monkeypatch.setattr(sys, name, str(base))
    shown = {bind.at for bind in current_python().binds}
    assert shown == {
        *(str(project / part) for part in ("bin", "lib", "pyvenv.cfg")),
        *(str(base / part) for part in ("bin", "lib")),
    }


def test_every_link_to_the_base_is_followed(tmp_path, monkeypatch):
    """uv and pyenv name a base by an alias that is itself a link."""
    real = _base(tmp_path / "cpython-3.11.9")
    alias = tmp_path / "cpython-3.11"
    alias.symlink_to(real.name)
    executable = _venv(tmp_path / "venv", alias)
    monkeypatch.setattr(sys, "executable", str(executable))
    for name in ("prefix", "exec_prefix"):
        monkeypatch.setattr(sys, name, str(tmp_path / "venv"))
    for name in ("base_prefix", "base_exec_prefix"):
        monkeypatch.setattr(sys, name, str(real))
    binds = {bind.at: bind.source for bind in current_python().binds}
    assert binds[str(alias / "bin")] == binds[str(real / "bin")] == str(real / "bin")


def test_a_system_python_needs_nothing(monkeypatch):
    for name in ("prefix", "exec_prefix", "base_prefix", "base_exec_prefix"):
        monkeypatch.setattr(sys, name, "/usr")
    monkeypatch.setattr(sys, "executable", "/usr/bin/env")
    monkeypatch.setattr("site.ENABLE_USER_SITE", False)
    assert current_python() == Python("/usr/bin/env", (), {})


def test_a_python_inside_a_box_folder_is_covered_and_kept():
    binds = [Bind("/work/p/.venv/bin", "/work/p/.venv/bin"), Bind("/opt/x/lib", "/opt/x/lib")]
    assert kept(binds) == ["/work/p", "/work/p/.venv", "/work/p/.venv/bin"]
    python = Python("/work/p/.venv/bin/python", tuple(binds), {})
    words = spelled(arguments(python, owner="o", disk_mb=1, mounts=(), inherited=Descriptors(3, 4, {})), {})
    cover, bind = words.index("/work/p/.venv"), words.index("/work/p/.venv/bin")
    assert words[cover - 1] == "--tmpfs"
    assert words.index("/work") < cover < bind < words.index("--remount-ro")
    assert words[words.index("--remount-ro") + 1] == "/work/p/.venv"


def test_the_recipe_has_every_clause():
    words = spelled(
        arguments(Python("/usr/bin/python3", (), {}), owner="o", disk_mb=2, mounts=(), inherited=Descriptors(3, 4, {})),
        {},
    )
    for clause in (
        "--unshare-all --unshare-user --disable-userns --cap-drop ALL",
        "--new-session --as-pid-1",
        "--seccomp 3",
        "--clearenv",
        "--size 2097152 --tmpfs /work",
        "--size 2097152 --tmpfs /tmp",
        "--size 2097152 --tmpfs /dev/shm",
        "--remount-ro /dev --remount-ro / --chdir / -- /usr/bin/python3 -I -S -E",
    ):
        assert clause in " ".join(words)
    assert "--bind" not in words
    assert "--share-net" not in words
