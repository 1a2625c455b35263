"""What the scorers share: run something that may be hostile, sweep what it left, write one number."""

import contextlib
import ctypes
import json
import os
import signal
import subprocess

METRIC = "solved"
_SUBREAPER = 36


def write(score):
    """The result, written last."""
    with open("/result/result.json", "w") as file:
        json.dump({METRIC: score}, file)


def adopt():
    """Make this process the parent of every orphan below it, so that none escapes `sweep`."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def sweep():
    """Kill everything below this process and wait for it."""
    for _ in range(1000):
        below = _descendants()
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        if not below:
            return


def run(argv, cwd, env, timeout):
    """Run to the end or the deadline, then sweep. The exit code, or None."""
    child = subprocess.Popen(argv, cwd=cwd, env={**os.environ, **env}, stdin=subprocess.DEVNULL)
    try:
        return child.wait(timeout)
    except subprocess.TimeoutExpired:
        return None
    finally:
        sweep()


def copy(source, target):
    """Copy a folder's files with modes of our own: what comes from outside is read-only."""
    os.makedirs(target, exist_ok=True)
    for entry in os.scandir(source):
        place = os.path.join(target, entry.name)
        if entry.is_dir(follow_symlinks=False):
            copy(entry.path, place)
        elif entry.is_file(follow_symlinks=False):
            with open(entry.path, "rb") as old, open(place, "wb") as new:
                new.write(old.read())
            os.chmod(place, 0o755 if entry.stat().st_mode & 0o111 else 0o644)


def _descendants():
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError):
                continue
    found, ahead = [], [os.getpid()]
    while ahead:
        one = ahead.pop()
        more = [pid for pid, parent in parents.items() if parent == one]
        found += more
        ahead += more
    return found
