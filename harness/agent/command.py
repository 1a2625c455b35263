"""Agents that people already have, unchanged, in a box on a copy of the tree: a command, a Python function, ACP."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from harness.agent import mounts, prompt
from harness.agent.base import Ask, Proposal
from harness.agent.bench import Bench
from harness.agent.boxed import PROMPT, Job, lacks, refused, work
from harness.agent.presets import PRESETS, Preset
from harness.agent.settings import AcpConfig, BoxedConfig, CommandConfig, PythonConfig, check_words, read
from harness.errors import InputError
from harness.resources import resource


class _Boxed:
    """What the three share."""

    name = ""
    boxed: ClassVar[bool] = True

    def __init__(self) -> None:
        self._bench: Bench | None = None

    def equip(self, bench: Bench) -> None:
        self._bench = bench

    def _model(self, config: BoxedConfig) -> str:
        assert self._bench is not None, "equip comes first"
        names = [] if self._bench.server is None else list(self._bench.server.gateway.routes)
        return config.model or (names[0] if names else "none")

    def _told(self, config: BoxedConfig, preset: Preset, more: Mapping[str, bytes] | None = None) -> dict[str, object]:
        model = self._model(config)
        files = {path: text.format(model=model).encode() for path, text in preset.files.items()}
        return {"files": {**files, **(more or {})}, "env": {**preset.env, **_pairs(config.env)}}

    def _job(self, ask: Ask, config: BoxedConfig, argv: Sequence[str], **more: object) -> Job:
        model = self._model(config)
        text = prompt.task(ask, history=config.history, extra=config.instructions)
        editable = [path for path in ask.tree if ask.is_editable(path)]
        bare = _bare_job(config, _filled(argv, text, model, editable), text)
        return replace(bare, **more)  # pyright: ignore[reportArgumentType] - fields of Job, given by this module alone


class CommandAgent(_Boxed):
    """Runs a command line; see `CommandConfig`."""

    name = "command"

    def __init__(self, config: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self._config = read(CommandConfig, config, self.name)
        self._preset = PRESETS[self._config.preset]
        self.needs_model = self._config.preset != "generic"
        self._argv = _command_line(self._config.argv or self._preset.argv, self._config.args, "{prompt}")

    async def prove(self, bench: Bench) -> None:
        """Raises InputError when its box lacks the program."""
        plain = self._config.argv or self._preset.argv
        await _prove_program(bench, self._config, plain, self._preset.program(plain))

    async def propose(self, ask: Ask) -> Proposal | None:
        """What the command makes of a copy of the parent. Raises AgentError."""
        assert self._bench is not None, "equip comes first"
        config = self._config
        job = self._job(ask, config, self._argv, **self._told(config, self._preset))
        return await work(self._bench, ask, job, name=_named(config))


class PythonAgent(_Boxed):
    """Calls a function of the user's in a box; see `PythonConfig`."""

    name = "python"

    def __init__(self, config: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self._config = read(PythonConfig, config, self.name)
        path = Path(self._config.file)
        if not path.is_file():
            raise InputError(
                "no such file", file=path, key="policy.agent.config.file", mend="give the path of a .py file"
            )
        self._source = path.read_bytes()

    async def prove(self, bench: Bench) -> None:
        """Raises InputError when its Python cannot import the module, or finds no such function in it."""
        argv = (mounts.python(self._config.mounts), "/tmp/call.py", "--prove", self._config.function)  # noqa: S108 - the box's
        job = replace(_bare_job(self._config, argv, ""), files=self._files())
        if (said := await refused(bench, job)) is not None:
            mend = (
                "correct the module; packages of yours come with the environment they are in: "
                'mounts = ["/home/me/venv"] of policy.agent.config'
            )
            raise InputError(f"the agent's box cannot load it: {said}", file=Path(self._config.file), mend=mend)

    def _files(self) -> dict[str, bytes]:
        return {"call.py": _driver("call.py"), "agent/user_agent.py": self._source}

    async def propose(self, ask: Ask) -> Proposal | None:
        """What the function makes of a copy of the parent. Raises AgentError."""
        assert self._bench is not None, "equip comes first"
        config = self._config
        known = {
            "metric": ask.metric,
            "direction": ask.direction,
            "ticket": ask.ticket,
            "parent": {"id": ask.parent.id, "score": ask.parent.score},
            "editable": [path for path in ask.tree if ask.is_editable(path)],
            "history": [_told(attempt) for attempt in ask.history[-config.history :]] if config.history else [],
            "model": self._model(config),
            "prompt": prompt.task(ask, history=config.history, extra=config.instructions),
        }
        files = {**self._files(), "ask.json": json.dumps(known).encode()}
        argv = (mounts.python(config.mounts), "/tmp/call.py", config.function)  # noqa: S108 - the box's
        job = self._job(ask, config, argv, files=files)
        return await work(self._bench, ask, job, name=f"{Path(config.file).stem}.{config.function}")


class AcpAgent(_Boxed):
    """Drives an agent over the Agent Client Protocol; see `AcpConfig`."""

    name = "acp"

    def __init__(self, config: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self._config = read(AcpConfig, config, self.name)
        self._preset = PRESETS[self._config.preset]
        self.needs_model = self._config.preset != "generic"
        self._argv = _command_line(self._config.argv or self._preset.acp, self._config.args, "--acp")

    async def prove(self, bench: Bench) -> None:
        """Raises InputError when its box lacks the program."""
        plain = self._config.argv or self._preset.acp
        await _prove_program(bench, self._config, plain, self._preset.program(plain))

    async def propose(self, ask: Ask) -> Proposal | None:
        """What the agent makes of a copy of the parent. Raises AgentError."""
        assert self._bench is not None, "equip comes first"
        config = self._config
        argv = ("python", "/tmp/acp.py", PROMPT, *self._argv)  # noqa: S108 - the box's
        told = self._told(config, self._preset, {"acp.py": _driver("acp.py")})
        job = self._job(ask, config, argv, **told)
        return await work(self._bench, ask, job, name=_named(config))


def _bare_job(config: BoxedConfig, argv: Sequence[str], prompt: str) -> Job:
    return Job(
        argv=tuple(argv),
        prompt=prompt,
        deadline_s=config.deadline_s,
        env=_pairs(config.env),
        mounts=config.mounts,
        drop=config.drop,
        memory_mb=config.memory_mb,
        pids=config.pids,
        disk_mb=config.disk_mb,
        git=config.git,
    )


async def _prove_program(bench: Bench, config: BoxedConfig, argv: Sequence[str], program: str) -> None:
    """Raises InputError when the agent's box has no such program; one that lies in the subject is not looked for."""
    if "{" in program or program == "python" or ("/" in program and not program.startswith("/")):
        return
    if await lacks(bench, _bare_job(config, argv, ""), program):
        mend = (
            "give the folder in which it is installed, a virtual environment or one with node_modules in it, as "
            'mounts = ["/home/me/folder"] of policy.agent.config; a docker box sees its image and mounts alone'
        )
        raise InputError(f"the agent's box has no program {program!r}", key="policy.agent.config", mend=mend)


def _command_line(argv: Sequence[str], args: Sequence[str], example: str) -> tuple[str, ...]:
    check_words((*argv, *args))
    if argv:
        return (*argv, *args)
    mend = f'give argv = ["my-agent", "{example}"], or a preset'
    raise InputError("no command line", key="policy.agent.config.argv", mend=mend)


def _named(config: CommandConfig | AcpConfig) -> str:
    """The name of an agent for people: the preset's only where its command line is what runs."""
    return Path(config.argv[0]).name if config.argv else config.preset


def _filled(argv: Sequence[str], text: str, model: str, editable: Sequence[str]) -> list[str]:
    out: list[str] = []
    for word in argv:
        if word == "{editable}":
            out += editable
        else:
            # one pass, so that braces in the prompt stay what they are
            parts = word.split("{prompt}")
            filled = [part.replace("{prompt_file}", PROMPT).replace("{model}", model) for part in parts]
            out.append(text.join(filled))
    return out


def _driver(name: str) -> bytes:
    return (resource("sandbox") / "agents" / name).read_bytes()


def _told(attempt: object) -> dict[str, object]:
    names = ("ticket", "parent", "variant", "verdict", "score", "parent_score", "note", "reason")
    return {name: getattr(attempt, name) for name in names}


def _pairs(lines: Sequence[str]) -> dict[str, str]:
    return {name: value for name, _, value in (row.partition("=") for row in lines)}
