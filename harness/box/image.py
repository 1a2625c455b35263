"""Images for docker boxes: built from `sandbox/Dockerfile`, or imported without any registry.

A closure of this host is a root file system with the Python that runs Strop, its packages and their byte code, a shell,
a few tools, and every shared library those need: what a candidate sees in an embedded box, as an image.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.box import engine
from harness.box.bytecode import cache_of
from harness.box.prefix import current_python
from harness.errors import InputError, MissingEnvironmentError
from harness.resources import resource

LABEL = "strop.image"
BUILD_S = 1800.0
_TOOLS = (
    *("sh", "bash", "env", "cat", "cp", "mv", "rm", "ln", "ls", "mkdir", "rmdir", "touch", "chmod", "head", "tail"),
    *("cut", "sort", "uniq", "tr", "wc", "tee", "test", "true", "false", "echo", "printf", "pwd", "date", "sleep"),
    *("basename", "dirname", "readlink", "realpath", "mktemp", "find", "xargs", "grep", "sed", "awk", "diff", "patch"),
    *("tar", "gzip", "which", "id", "uname", "git", "make"),
)
_ALSO = (
    *("/etc/ssl/certs", "/usr/share/zoneinfo/UTC", "/usr/lib/locale/C.utf8"),
    *("/usr/share/git-core", "/usr/lib/git-core"),
)
_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_FOLDERS = ("/proc", "/sys", "/dev", "/run", "/var/empty")


def build(tag: str, *, base: str = "") -> str:
    """Build `sandbox/Dockerfile` as `tag`, on `base` when given; its id. Raises MissingEnvironmentError."""
    with contextlib.closing(engine.connect(BUILD_S)) as api:
        problem = _built(api, tag, base)
        if problem:
            mend = "name a base that the engine has with --base, or import a root file system"
            raise MissingEnvironmentError(f"image {tag}", reason=problem[:400], mend=mend)
        return str(api.inspect_image(tag)["Id"])


def _built(api: engine.Api, tag: str, base: str) -> str:
    """Empty, or why it could not be built."""
    from docker.errors import DockerException  # noqa: PLC0415 - the docker client is slow to import

    options = {"path": str(resource("sandbox")), "tag": tag, "labels": {LABEL: "1"}, "network_mode": "none"}
    try:
        parts = api.build(**options, buildargs={"BASE": base} if base else {}, rm=True, forcerm=True, decode=True)
        return next((str(part["error"]) for part in parts if "error" in part), "")
    except DockerException as error:
        return str(error)


def import_rootfs(tag: str, rootfs: Path, *, path: str = "/usr/local/bin:/usr/bin:/bin") -> str:
    """Make `tag` of a tar of a root file system; its id. Raises InputError for what is not one."""
    try:
        usable = tarfile.is_tarfile(rootfs)
    except OSError as error:
        mend = "name a tar of a root file system, or use --from-host"
        raise InputError(f"cannot be read: {error.strerror}", file=rootfs, mend=mend) from None
    if not usable:
        raise InputError("is not a tar of a root file system", file=rootfs)
    name, _, version = tag.rpartition(":") if ":" in tag.rsplit("/", 1)[-1] else (tag, "", "latest")
    changes = [f"ENV PATH={path}", f"LABEL {LABEL}=1"]
    with contextlib.closing(engine.connect(BUILD_S)) as api:
        api.import_image(src=str(rootfs), repository=name, tag=version, changes=changes)
        return str(api.inspect_image(tag)["Id"])


def import_host(tag: str) -> str:
    """Make `tag` of a closure of this host; its id."""
    python = current_python()
    with tempfile.TemporaryDirectory(prefix="strop-image-") as folder:
        rootfs = Path(folder) / "rootfs.tar"
        with tarfile.open(rootfs, "w") as out:
            _Closure(out, without=_unseen()).take(python.executable, [bind.at for bind in python.binds])
        return import_rootfs(tag, rootfs, path=f"{Path(python.executable).parent}:/usr/local/bin:/usr/bin:/bin")


class _Closure:
    """Adds files to a tar once each, as root's, with the shared libraries that programs among them need. What lies in
    a folder of `without` is left out."""

    def __init__(self, out: tarfile.TarFile, without: frozenset[str] = frozenset()) -> None:
        self._out = out
        self._without = {"__pycache__", *without}
        self._seen: set[str] = set()

    def take(self, python: str, roots: Iterable[str]) -> None:
        """Everything a box needs to run `python` with the parts of its prefixes in `roots`."""
        for folder in _FOLDERS:
            self._folder(folder)
        for link in _LINKS:
            if Path(link).is_symlink():
                self._add(link)
        tools = [found for name in _TOOLS if (found := shutil.which(name, path="/usr/bin:/bin"))]
        programs = [*tools, python, *_standard(python)]
        for path in (*programs, *roots, *_ALSO, "/etc/ld.so.cache", "/etc/alternatives"):
            self._tree(path)
        for library in _libraries(self._seen):
            self._tree(library)
        for name, text in _ETC.items():
            self._file(name, text.encode())

    def _tree(self, path: str) -> None:
        if not os.path.lexists(path):
            return
        self._add(path)
        for folder, folders, names in os.walk(os.path.realpath(path)):
            folders[:] = [name for name in folders if not {name, f"{folder}/{name}"} & self._without]
            for name in (*folders, *names):
                found = os.path.join(folder, name)  # noqa: PTH118 - os.walk speaks text
                self._add(found)
                made = cache_of(found)
                if made is not None:
                    self._file(*made, mtime=os.stat(found).st_mtime)  # noqa: PTH116

    def _add(self, path: str) -> None:
        """What `path` names, with every folder and link on the way; each is added where it really lies, once."""
        here, hops = Path("/"), 0
        parts: list[str] = [*Path(path).parts[1:]]
        while parts and hops < 40:
            name = parts.pop(0)
            if name == "..":
                here = here.parent
                continue
            found = here / name
            self._one(str(found))
            if not found.is_symlink():
                here = found
                continue
            hops += 1
            target = found.readlink()
            here = Path("/") if target.is_absolute() else here
            parts = [part for part in target.parts if part != "/"] + parts

    def _one(self, path: str) -> None:
        if path in self._seen:
            return
        self._seen.add(path)
        with contextlib.suppress(OSError):
            info = self._out.gettarinfo(path)
            info.uid = info.gid = 0
            info.uname = info.gname = "root"
            info.mode |= 0o555 if info.isdir() else 0o444
            info.mtime = int(info.mtime)  # as byte code has it
            if info.isreg():
                info.mode |= 0o111 if info.mode & 0o100 else 0
                with open(path, "rb") as source:  # noqa: PTH123
                    self._out.addfile(info, source)
            elif info.isdir() or info.issym():
                self._out.addfile(info)
            elif info.islnk():  # a second name of a file: told as a file of its own
                info.type, info.linkname, info.size = tarfile.REGTYPE, "", os.path.getsize(path)  # noqa: PTH202
                with open(path, "rb") as source:  # noqa: PTH123
                    self._out.addfile(info, source)

    def _folder(self, path: str) -> None:
        for part in (*reversed(Path(path).parents), Path(path)):
            if str(part) not in self._seen and str(part) != "/":
                self._seen.add(str(part))
                info = tarfile.TarInfo(str(part).lstrip("/"))
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                self._out.addfile(info)

    def _file(self, path: str, data: bytes, *, mtime: float = 0) -> None:
        if path in self._seen:
            return
        self._seen.add(path)
        self._folder(str(Path(path).parent))
        info = tarfile.TarInfo(path.lstrip("/"))
        info.size, info.mode, info.mtime = len(data), 0o644, int(mtime)
        self._out.addfile(info, io.BytesIO(data))


_ETC = {
    "/etc/passwd": "root:x:0:0:root:/:/bin/sh\nbox:x:1000:1000:box:/:/bin/sh\n",
    "/etc/group": "root:x:0:\nbox:x:1000:\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


def _unseen() -> frozenset[str]:
    """The packages of the Python below a virtual environment that has its own: nothing in it would import them."""
    below = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    folders = {sysconfig.get_path(name, vars=below) for name in ("purelib", "platlib")}
    return frozenset(map(os.path.realpath, folders)) - set(map(os.path.realpath, sys.path))


def _standard(python: str) -> list[str]:
    """The standard library of a Python of the system's, which is no bind of a box."""
    code = "import sysconfig; print(*{sysconfig.get_path(n) for n in ('stdlib', 'platstdlib', 'purelib')}, sep='\\n')"
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=60)  # noqa: S603
    return [os.path.realpath(python), *done.stdout.split()]


def _libraries(paths: Iterable[str]) -> Iterator[str]:
    """Shared libraries, and the loader, that the programs and libraries among `paths` need."""
    binaries = [path for path in paths if _is_elf(path)]
    for at in range(0, len(binaries), 100):
        done = subprocess.run(  # noqa: S603
            ["/usr/bin/ldd", *binaries[at : at + 100]],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        for line in done.stdout.splitlines():
            words = line.split()
            yield from (word for word in words if word.startswith("/") and not word.endswith(":"))


def _is_elf(path: str) -> bool:
    try:
        if Path(path).is_symlink() or not Path(path).is_file():
            return False
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False
