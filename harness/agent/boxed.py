"""A program of somebody else's at work on a copy of the tree, in a box of its own, with the gateway on loopback.

What counts is what it leaves behind in the folder; what it says, and how it exits, only explains why there is nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.agent import mounts
from harness.agent.base import Ask, Proposal
from harness.agent.bench import Bench
from harness.agent.gist import gist
from harness.agent.prompt import LINES
from harness.box.base import TMP, WORK, Box, BoxSpec, Command
from harness.errors import AgentError, ExecTimeoutError, InfraError, LimitError
from harness.model.base import PROPOSER, Caller
from harness.policy.locks import Globs
from harness.records import Completed, Json
from harness.tree import Entry, Tree
from harness.untrusted import line

HOME = f"{TMP}/home"
PROMPT = f"{TMP}/prompt.md"
LITTER = (
    "**/__pycache__/**",
    "**/*.pyc",
    ".aider*",
    ".aider*/**",
    ".claude/**",
    ".codex/**",
    ".gemini/**",
    ".opencode/**",
    "**/.pytest_cache/**",
    "**/.ruff_cache/**",
    "**/node_modules/**",
)
_MAKE_HOME = 'mkdir -p "$HOME"'
_GIT = (
    f"{_MAKE_HOME} && git init -q . && git config user.name strop && git config user.email strop@localhost && "
    "git add -A && git commit -q -m start --no-verify || true"
)
_MAX_BYTES = 256 << 20
_TRIES = 2
_PROOF_S = 120.0
_CARETS = re.compile(r"[\s~^|]*")


@dataclass(frozen=True, slots=True)
class Job:
    """What to run. `files` go below /tmp; `mounts` are host folders laid read-only at their own paths."""

    argv: Sequence[str]
    prompt: str
    deadline_s: float
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    mounts: Sequence[str] = ()
    drop: Sequence[str] = ()
    memory_mb: int = 4096
    pids: int = 512
    disk_mb: int = 1024
    git: bool = True


async def work(bench: Bench, ask: Ask, job: Job, *, name: str) -> Proposal:
    """The tree that `job` leaves behind. Raises AgentError when it leaves the one it got, InfraError."""
    for attempt in range(_TRIES):
        try:
            done, found = await _run(bench, ask, job)
            break
        except InfraError:
            if attempt == _TRIES - 1:
                raise
    else:  # pragma: no cover - the loop above always ends in one of two ways
        raise AssertionError
    entries = tuple(_without_litter(ask.tree, found, (*LITTER, *job.drop), ask))
    changed = _changed(ask.tree, entries)
    if not changed:
        raise AgentError(f"{name} changed nothing: exit {done.exit_code}, {_last_words(done)}")
    memo: dict[str, Json] = {"agent": name, "exit": done.exit_code, LINES: gist(ask.tree, _changes(ask, entries))}
    return Proposal(tree=entries, note=_note(ask, name, done, changed), memo=memo)


def _note(ask: Ask, name: str, done: Completed, changed: Sequence[str]) -> str:
    ended = f", exit {done.exit_code}" if done.exit_code else ""
    left = [path for path in changed if path not in ask.tree and not ask.is_editable(path)]
    scratch = f"; it leaves {', '.join(left[:3])}: if that is scratch, name it under drop" if left else ""
    return f"{name} edits {', '.join(changed[:4])}{ended}{scratch}"


async def lacks(bench: Bench, job: Job, program: str) -> bool:
    """Whether the box that `job` would get has no such program. Raises InfraError."""
    return await refused(bench, replace(job, argv=("sh", "-c", 'command -v "$1"', "sh", program))) is not None


async def refused(bench: Bench, job: Job) -> str | None:
    """The last words of a job that fails in a box without a tree or a model; None of one that ends well."""
    async with bench.boxes.open(_spec(bench.spec, job)) as box:
        await _lay(box, job)
        try:
            done = await box.exec(replace(_command(job), deadline_s=min(job.deadline_s, _PROOF_S)))
        except ExecTimeoutError as error:
            return f"it takes longer than {error.deadline_s:g} s, {_last_words(error.partial)}"
        except LimitError as error:
            return f"{error.message}, {_last_words(error.partial)}"
    return None if done.exit_code == 0 else _last_words(done)


async def _lay(box: Box, job: Job) -> None:
    files = {PROMPT.removeprefix(f"{TMP}/"): job.prompt.encode(), **job.files}
    await box.put([Entry(path.encode(), "file", 0o755, data) for path, data in files.items()], TMP)


def _command(job: Job) -> Command:
    return Command(tuple(job.argv), job.deadline_s, env=_env(job), ahead=mounts.ahead(job.mounts))


async def _run(bench: Bench, ask: Ask, job: Job) -> tuple[Completed, list[Entry]]:
    async with bench.boxes.open(_spec(bench.spec, job)) as box:
        if bench.server is not None:
            await box.attach(bench.server.link(Caller(ask.ticket, PROPOSER, ask.parent.id)))
        await box.put(ask.tree.entries(), WORK)
        await _lay(box, job)
        setup = _GIT if job.git else _MAKE_HOME
        await box.exec(Command(("sh", "-c", setup), 60.0, env={"HOME": HOME}))
        try:
            done = await box.exec(_command(job))
        except ExecTimeoutError as error:
            raise AgentError(
                f"killed at its deadline of {error.deadline_s:g} s, {_last_words(error.partial)}"
            ) from None
        except LimitError as error:
            raise AgentError(f"{error.message}, {_last_words(error.partial)}") from None
        return done, await box.get(WORK, max_bytes=_MAX_BYTES, max_entries=100_000)


def _spec(spec: BoxSpec, job: Job) -> BoxSpec:
    limits = replace(
        spec.limits,
        memory_mb=max(spec.limits.memory_mb, job.memory_mb),
        pids=max(spec.limits.pids, job.pids),
        disk_mb=max(spec.limits.disk_mb, job.disk_mb),
        open_files=max(spec.limits.open_files, 4096),
    )
    return replace(spec, limits=limits, mounts=(*spec.mounts, *mounts.reach(job.mounts)))


def _env(job: Job) -> dict[str, str]:
    return {"HOME": HOME, "STROP_PROMPT_FILE": PROMPT, "CI": "1", "NO_COLOR": "1", "TERM": "dumb", **job.env}


def _without_litter(tree: Tree, found: Iterable[Entry], litter: Sequence[str], ask: Ask) -> Iterable[Entry]:
    """Less the throwaway repository we made, and what tools leave lying about where nobody may write anyway."""
    lies = Globs(tuple(litter))
    for entry in found:
        if entry.path == b".git" or entry.path.startswith(b".git/"):
            continue
        path = entry.path.decode("utf-8", "replace")
        if path not in tree and lies(path) and not ask.is_editable(path):
            continue
        yield entry


def _changes(ask: Ask, entries: Sequence[Entry]) -> dict[str, bytes | None]:
    """What it changed of the files it may change; the door names the others."""
    left = {entry.path.decode("utf-8", "replace"): entry for entry in entries if entry.kind == "file"}
    edited = {
        path: entry.data for path, entry in left.items() if path not in ask.tree or ask.tree[path].data != entry.data
    }
    gone = {path: None for path in ask.tree if path not in left}
    return {path: data for path, data in {**edited, **gone}.items() if ask.is_editable(path)}


def _changed(tree: Tree, entries: Sequence[Entry]) -> list[str]:
    left = {entry.path.decode("utf-8", "replace"): entry for entry in entries if entry.kind != "dir"}
    odd = [line(path) for path, entry in left.items() if path not in tree or _differs(tree, path, entry)]
    return sorted(odd + [line(path) for path in tree if path not in left])


def _differs(tree: Tree, path: str, entry: Entry) -> bool:
    return entry.kind != "file" or entry.data != tree[path].data


def _last_words(done: Completed) -> str:
    """The last line that says anything, of what it complained and of what it said."""
    words = [_last_line(text) for text in (done.stderr, done.stdout)]
    told = [line(word, 200) for word in words if word]
    return f"last words: {'; and '.join(told)}" if told else "without a word"


def _last_line(said: bytes) -> bytes:
    rows = said[-4000:].splitlines()
    return next((row.strip() for row in reversed(rows) if not _CARETS.fullmatch(row.decode("utf-8", "replace"))), b"")
