"""What every back end's boxes must do. A back end's tests subclass `BoxContract` and give `boxes`.

Needs nothing but a Python in the box. Isolation is the self-check's matter; this is behaviour.
"""

from __future__ import annotations

import signal
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Generic, TypeVar

import anyio

from harness.box.base import FOLDERS, OUT, TMP, WORK, Box, Boxes, BoxSpec, Command
from harness.errors import BoxClosedError, ExecTimeoutError, InfraError, InputError, LimitError
from harness.limits import Limits
from harness.records import Completed
from harness.tree import Entry

_E = TypeVar("_E", bound=Exception)
LIMITS = Limits(memory_mb=512, pids=32, disk_mb=16, open_files=64, output_kb=64)


async def python(
    box: Box, source: str, *, deadline_s: float = 20.0, env: Mapping[str, str] | None = None, stdin: bytes = b""
) -> Completed:
    """Run a few lines of Python in `box`."""
    return await box.exec(Command(("python", "-c", source), deadline_s, env=env or {}, stdin=stdin))


class Expected(Generic[_E]):
    """Holds the error that `expect` caught."""

    error: _E


@contextmanager
def expect(kind: type[_E]) -> Generator[Expected[_E]]:
    """The block must raise `kind`. (No test library: a back end elsewhere may use this contract with its own.)"""
    caught = Expected[_E]()
    try:
        yield caught
    except kind as error:
        caught.error = error
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def names(entries: list[Entry]) -> dict[bytes, str]:
    """{path: kind}."""
    return {entry.path: entry.kind for entry in entries}


class BoxContract:
    """Behaviour of `Boxes` and `Box`. Methods are pytest tests (asyncio mode auto)."""

    def boxes(self) -> Boxes:
        """The back end under test."""
        raise NotImplementedError

    @asynccontextmanager
    async def live(self, limits: Limits = LIMITS) -> AsyncGenerator[Box]:
        """One open box."""
        async with self.boxes().open(BoxSpec(owner="contract", limits=limits)) as box:
            yield box

    async def test_exit_code_output_and_time(self) -> None:
        async with self.live() as box:
            done = await python(box, "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")
        assert (done.exit_code, done.stdout, done.stderr, done.truncated) == (7, b"out\n", b"err\n", False)
        assert 0 < done.cpu_s < 5
        assert 0 < done.wall_s < 20

    async def test_peak_memory_is_the_commands_own(self) -> None:
        async with self.live() as box:
            large = await python(box, "held = b'x' * (100 << 20)")
            small = await python(box, "pass")
        assert large.memory_mb is not None
        assert small.memory_mb is not None
        assert 100 < large.memory_mb < 400
        assert 0 < small.memory_mb < large.memory_mb - 80

    async def test_a_command_that_cannot_be_told_is_refused_and_the_box_goes_on(self) -> None:
        bad = (
            Command((), 5),
            Command(("python\ud800",), 5),
            Command(("python", "a\0b"), 5),
            Command(("python", "x" * (1 << 18)), 5),
            Command(("python",), 5, env={"A": "\ud800"}),
            Command(("python",), 5, env={"": "x"}),
            Command(("python",), 5, cwd="/work\ud800"),
            Command(("python",), float("nan")),
        )
        async with self.live() as box:
            for command in bad:
                with expect(InputError):
                    await box.exec(command)
            assert (await python(box, "print(1)")).stdout == b"1\n"

    async def test_a_signal_is_a_negative_exit_code(self) -> None:
        async with self.live() as box:
            done = await python(box, "import os; os.kill(os.getpid(), 15)")
        assert done.exit_code == -15

    async def test_a_missing_program_is_a_result(self) -> None:
        async with self.live() as box:
            done = await box.exec(Command(("no-such-program",), 5))
            assert done.exit_code == 127
            assert b"no-such-program" in done.stderr
            assert (await box.exec(Command(("python",), 5, cwd="/work/gone"))).exit_code == 127

    async def test_stdin_and_binary_output(self) -> None:
        given = bytes(range(256)) * 2000
        async with self.live(Limits(output_kb=1024)) as box:
            done = await python(box, "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())", stdin=given)
            assert done.stdout == given
            assert (await python(box, "import sys; print(len(sys.stdin.read()))")).stdout == b"0\n"
            assert (await python(box, "pass", stdin=given)).exit_code == 0

    async def test_programs_are_looked_for_ahead_of_the_boxs_own_path_and_then_there(self) -> None:
        tool = b"#!/bin/sh\necho ahead; command -v sh >/dev/null && echo on\n"
        async with self.live() as box:
            await box.put([Entry(b"tool", "file", 0o755, tool)], WORK)
            done = await box.exec(Command(("sh", "-c", "tool"), 20, ahead=("/nowhere", WORK)))
            given = await box.exec(Command(("sh", "-c", "tool"), 20, env={"PATH": "/bin"}, ahead=(WORK,)))
        assert done.stdout.split() == [b"ahead", b"on"]
        assert given.exit_code == 127

    async def test_the_environment_is_what_was_given(self) -> None:
        async with self.live() as box:
            done = await python(
                box, "import os; print(*(f'{k}={v}' for k, v in os.environ.items()), sep='\\n')", env={"GIVEN": "x y"}
            )
        seen = dict(line.split("=", 1) for line in done.stdout.decode().splitlines())
        assert seen["GIVEN"] == "x y"
        assert seen["LANG"] == "C.UTF-8"
        assert seen["OMP_NUM_THREADS"] == "1"
        assert not {"PYTEST_CURRENT_TEST", "USER", "SHELL", "LOGNAME", "SUDO_USER"} & set(seen)

    async def test_a_command_inherits_three_descriptors_and_default_signals(self) -> None:
        source = (
            "import os\n"
            "print(sorted(os.listdir('/proc/self/fd'))[:3], len(os.listdir('/proc/self/fd')), flush=True)\n"
            "os.execvp('grep', ['grep', '-E', 'SigBlk|SigIgn', '/proc/self/status'])\n"
        )
        before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)  # as nohup and a shell's `&` leave it
        try:
            async with self.live() as box:
                lines = (await python(box, source)).stdout.decode().splitlines()
        finally:
            signal.signal(signal.SIGQUIT, before)
        assert lines[0] == "['0', '1', '2'] 4"
        assert int(lines[1].split()[1], 16) == 0
        theirs = 1 << 12 | 1 << 24 | 3 << 31  # Python ignores SIGPIPE and SIGXFSZ, a spawn the C library's own two
        assert int(lines[2].split()[1], 16) & ~theirs == 0

    async def test_output_is_capped_and_says_so(self) -> None:
        async with self.live() as box:
            done = await python(box, "import sys; sys.stdout.write('x' * 200_000); sys.stderr.write('e')")
        assert (done.truncated, len(done.stdout), done.stderr) == (True, LIMITS.output_kb * 1024, b"e")

    async def test_a_flood_is_stopped(self) -> None:
        async with self.live(Limits(output_kb=16)) as box:
            with expect(LimitError) as caught:
                await python(box, "import os\nwhile True: os.write(1, b'y' * 65536)")
            assert (caught.error.limit, caught.error.value) == ("output", 16 * 1024)
            assert caught.error.partial.stdout == b"y" * 16 * 1024
            assert (await python(box, "print(1)")).stdout == b"1\n"

    async def test_a_deadline_keeps_what_was_written(self) -> None:
        async with self.live() as box:
            started = time.monotonic()
            with expect(ExecTimeoutError) as caught:
                await python(box, "import time; print('early', flush=True); time.sleep(60)", deadline_s=0.7)
            assert caught.error.deadline_s == 0.7
            assert caught.error.partial.stdout == b"early\n"
            assert time.monotonic() - started < 5
            assert (await python(box, "print(1)")).stdout == b"1\n"

    async def test_children_do_not_outlive_the_command(self) -> None:
        source = (
            "import os, time\n"
            "if os.fork() == 0:\n"
            "    os.setsid()\n"
            "    if os.fork() == 0:\n"
            "        time.sleep(1.0); open('late', 'w'); time.sleep(60)\n"
            "    os._exit(0)\n"
            "print('done')\n"
        )
        async with self.live() as box:
            started = time.monotonic()
            assert (await python(box, source)).stdout == b"done\n"
            assert time.monotonic() - started < 10
            await python(box, "import time; time.sleep(1.2)")
            assert names(await box.get(WORK, max_bytes=1000)) == {}

    async def test_a_stopped_command_is_still_ended(self) -> None:
        async with self.live() as box:
            with expect(ExecTimeoutError):
                await python(box, "import os; os.kill(os.getpid(), 19)", deadline_s=0.5)

    async def test_a_command_that_closes_its_pipes(self) -> None:
        async with self.live() as box:
            done = await python(box, "import os, time; os.close(1); os.close(2); time.sleep(0.1); os._exit(3)")
        assert (done.exit_code, done.stdout) == (3, b"")

    async def test_put_and_get_give_back_the_same(self) -> None:
        entries = [
            Entry(b"a.txt", "file", 0o644, b"one"),
            Entry(b"deep/er/b.bin", "file", 0o755, bytes(range(256)) * 1000),
            Entry(b"empty", "dir", 0o755),
            Entry("naïve \n name.py".encode(), "file", 0o644, b""),
        ]
        async with self.live() as box:
            await box.put(entries, WORK)
            found = await box.get(WORK, max_bytes=1 << 20)
            files = [(e.path, e.kind, e.mode, e.data) for e in found if e.kind == "file"]
            assert files == sorted((e.path, e.kind, e.mode, e.data) for e in entries if e.kind == "file")
            assert {path for path, kind in names(found).items() if kind == "dir"} == {b"deep", b"deep/er", b"empty"}
            await box.put([Entry(b"a.txt", "file", 0o644, b"two")], WORK)
            assert (await python(box, "print(open('a.txt').read())")).stdout == b"two\n"

    async def test_read_only_takes_the_write_bits(self) -> None:
        async with self.live() as box:
            await box.put([Entry(b"d/f", "file", 0o644, b"x"), Entry(b"s", "file", 0o755)], "/eval", read_only=True)
            modes = {entry.path: entry.mode for entry in await box.get("/eval", max_bytes=100)}
            assert modes == {b"d": 0o555, b"d/f": 0o444, b"s": 0o555}
            await box.reset()
            await box.put([Entry(b"f", "file", 0o644, b"x")], "/eval")

    async def test_what_may_not_go_in(self) -> None:
        async with self.live() as box:
            for path in (b"", b"/etc/x", b"../x", b"a/../../x", b"a//b", b"a\0b", b"."):
                await _refused(box, Entry(path, "file"), WORK)
            await _refused(box, Entry(b"l", "symlink", data=b"/etc"), WORK)
            await _refused(box, Entry(b"f", "file"), "/etc")
            await _refused(box, Entry(b"f", "file"), "/work/../etc")
            assert await box.get(WORK, max_bytes=0) == []

    async def test_hostile_kinds_are_named_and_not_followed(self) -> None:
        source = (
            "import os, socket\n"
            "os.symlink('/etc/passwd', 'link'); os.symlink('/', 'root'); os.symlink('link', 'loop')\n"
            "os.mkfifo('fifo'); socket.socket(socket.AF_UNIX).bind('sock')\n"
            "open('one', 'w').write('x'); os.link('one', 'two')\n"
            "open(b'bytes\\xff\\n\\x1b', 'w'); os.mkdir('dir'); os.chmod('dir', 0); os.open('closed', os.O_CREAT, 0)\n"
        )
        async with self.live() as box:
            assert (await python(box, source)).exit_code == 0
            found = await box.get(WORK, max_bytes=10_000)
        assert names(found) == {
            b"link": "symlink",
            b"root": "symlink",
            b"loop": "symlink",
            b"fifo": "fifo",
            b"sock": "socket",
            b"one": "hardlink",
            b"two": "hardlink",
            b"bytes\xff\n\x1b": "file",
            b"dir": "dir",
            b"closed": "file",
        }
        assert all(not entry.data for entry in found if entry.kind not in {"symlink", "file"})
        assert [entry.path for entry in found] == sorted(entry.path for entry in found)

    async def test_put_does_not_follow_a_link_out(self) -> None:
        async with self.live() as box:
            await python(box, "import os; os.symlink('../out', 'd'); os.symlink('../out/f', 'f')")
            await box.put([Entry(b"d/f", "file", data=b"x"), Entry(b"f", "file", data=b"x")], WORK)
            assert await box.get(OUT, max_bytes=100) == []
            assert names(await box.get(WORK, max_bytes=100)) == {b"d": "dir", b"d/f": "file", b"f": "file"}

    async def test_get_is_bounded(self) -> None:
        async with self.live() as box:
            await python(box, "open('big', 'wb').truncate(1 << 40); open('small', 'w').write('x')")
            for bounds in ({"max_bytes": 1000}, {"max_bytes": 1 << 50, "max_entries": 1}):
                with expect(LimitError) as caught:
                    await box.get(WORK, **bounds)
                assert caught.error.limit == "output"
            assert (await python(box, "print(1)")).stdout == b"1\n"

    async def test_get_of_one_file_and_of_nothing(self) -> None:
        async with self.live() as box:
            await box.put([Entry(b"r.json", "file", data=b"{}")], "/result")
            (entry,) = await box.get("/result/r.json", max_bytes=100)
            assert (entry.path, entry.kind, entry.data) == (b"", "file", b"{}")
            assert await box.get("/result/none", max_bytes=100) == []

    async def test_reset_leaves_nothing(self) -> None:
        source = (
            "import os\n"
            f"for place in {[*FOLDERS, TMP]!r}:\n"
            "    place = os.environ.get('STROP_' + place[1:].upper(), place)\n"
            "    if place == '/tmp': place = os.environ.get('TMPDIR', place)\n"
            "    here = place\n"
            "    for _ in range(60):\n"
            "        here += '/' + 'd' * 50; os.mkdir(here)\n"
            "    open(here + '/f', 'w').close(); os.mkfifo(place + '/p'); os.symlink('/usr', place + '/l')\n"
            "    os.chmod(place + '/' + 'd' * 50, 0); os.chmod(place, 0o500)\n"
        )
        async with self.live() as box:
            done = await python(box, source)
            assert done.exit_code == 0, done.stderr
            await box.reset()
            for place in (*FOLDERS, TMP):
                assert await box.get(place, max_bytes=0) == []
            await box.put([Entry(b"f", "file")], WORK)

    async def test_reset_gives_back_modes_and_times(self) -> None:
        look = (
            "import os, stat\n"
            f"places = [os.environ.get('STROP_' + p[1:].upper(), p) for p in {[*FOLDERS]!r}]\n"
            "places += [os.environ.get('TMPDIR', '/tmp')]\n"
            "places += ['/dev/shm'] if 'TMPDIR' not in os.environ else []\n"
            "print([(p, oct(os.stat(p).st_mode), os.stat(p).st_mtime > 1e9, os.listxattr(p)) for p in places])\n"
        )
        spoil = "for p in places: os.chmod(p, 0o707); os.utime(p, (12345, 12345))\n"
        async with self.live() as box:
            before = (await python(box, look)).stdout
            spoilt = (await python(box, look + spoil + look)).stdout.splitlines()
            assert spoilt[0] + b"\n" == before
            assert spoilt[1] + b"\n" != before
            await box.reset()
            assert (await python(box, look)).stdout == before

    async def test_reset_leaves_no_connection(self) -> None:
        """A box that the kernel remembers connections of is closed, never used again."""
        listens = "import socket\ns = socket.create_server(('127.0.0.1', 0))\n"
        speaks = "c = socket.create_connection(s.getsockname()); a, _ = s.accept(); c.close(); a.close()\n"
        if not self.boxes().isolated:
            return  # the network is the machine's
        async with self.live() as box:
            assert (await python(box, listens)).exit_code == 0
            await box.reset()
            assert (await python(box, listens + speaks)).exit_code == 0
            with expect(InfraError):
                await box.reset()
            await _closed(box)

    async def test_a_cancelled_exec_closes_the_box(self) -> None:
        async with self.live() as box:
            started = time.monotonic()
            with anyio.move_on_after(0.3):
                await python(box, "import time; time.sleep(60)", deadline_s=50)
            assert time.monotonic() - started < 5
            await _closed(box)

    async def test_a_closed_box_says_so(self) -> None:
        async with self.live() as box:
            pass
        await _closed(box)

    async def test_an_error_in_the_body_closes_the_box(self) -> None:
        with expect(KeyError):
            async with self.live() as box:
                await _fail()
        await _closed(box)

    async def test_eight_at_once(self) -> None:
        seen: set[bytes] = set()

        async def one(number: int) -> None:
            async with self.live() as box:
                await box.put([Entry(b"n", "file", data=b"%d" % number)], WORK)
                seen.add((await python(box, "print(open('n').read())")).stdout)

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(one, number)
        assert seen == {b"%d\n" % number for number in range(8)}

    async def test_memory_is_limited(self) -> None:
        async with self.live(Limits(memory_mb=128)) as box:
            with expect(LimitError) as caught:
                await python(box, "import time; x = b'x' * (300 << 20); time.sleep(5)")
            assert (caught.error.limit, caught.error.value) == ("memory", 128)

    async def test_open_files_are_limited(self) -> None:
        source = "import os\ntry:\n    while True: os.open('/dev/null', 0)\nexcept OSError as e: print(e.errno)"
        async with self.live() as box:
            assert (await python(box, source)).stdout == b"24\n"


async def _fail() -> None:
    raise KeyError("mine")


async def _refused(box: Box, entry: Entry, at: str) -> None:
    with expect(ValueError):
        await box.put([entry], at)


async def _closed(box: Box) -> None:
    for use in (python(box, "pass"), box.get(WORK, max_bytes=1), box.put([], WORK), box.reset()):
        with expect(BoxClosedError):
            await use
