"""Agents that people already have, unchanged, in a box on a copy of the tree: a command, a Python function, ACP."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.agent import mounts, prompt
from harness.agent.base import Ask, Proposal
from harness.agent.bench import Bench
from harness.agent.boxed import PROMPT, Job, work
from harness.agent.presets import PRESETS, Preset
from harness.errors import InputError
from harness.resources import resource

PresetName = Literal["claude", "codex", "gemini", "opencode", "aider", "mini-swe-agent", "generic"]
AcpName = Literal["gemini", "opencode", "generic"]
_Config = TypeVar("_Config", bound="BoxedConfig")


class BoxedConfig(BaseModel):
    """What every agent in a box may be told in `[policy.agent.config]`.

    `model` is what it is to ask for, by default the policy's first; `mounts` are absolute host folders it needs to see
    (its virtual environment or node installation), each at its own path, with its `bin` and `node_modules/.bin` before
    the box's own PATH; `env` are NAME=value lines; `drop` are globs of files it leaves lying about; `instructions` are
    added to the prompt.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = ""
    mounts: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    instructions: str = ""
    history: int = Field(default=20, ge=0)
    deadline_s: float = Field(default=900.0, gt=0)
    memory_mb: int = Field(default=4096, ge=64)
    pids: int = Field(default=512, ge=16)
    disk_mb: int = Field(default=1024, ge=16)
    git: bool = True


class CommandConfig(BoxedConfig):
    """`preset` names a known agent; `argv` is a template of your own (see `harness.agent.presets`)."""

    preset: PresetName = "generic"
    argv: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


class PythonConfig(BoxedConfig):
    """`file` is your module, `function` what is called in it with one dictionary, in the folder with the tree.

    The first virtual environment among `mounts` gives the Python that calls it.
    """

    file: str
    function: str = "improve"


class AcpConfig(BoxedConfig):
    """`argv` starts an agent that speaks the Agent Client Protocol on its standard streams; or `preset` names one."""

    preset: AcpName = "generic"
    argv: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


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
        job = Job(
            argv=tuple(_filled(argv, text, model, editable)),
            prompt=text,
            deadline_s=config.deadline_s,
            env=_pairs(config.env),
            mounts=config.mounts,
            drop=config.drop,
            memory_mb=config.memory_mb,
            pids=config.pids,
            disk_mb=config.disk_mb,
            git=config.git,
        )
        return _laid(job, more)


class CommandAgent(_Boxed):
    """Runs a command line; see `CommandConfig`."""

    name = "command"

    def __init__(self, config: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self._config = _read(CommandConfig, config, self.name)
        self._preset = PRESETS[self._config.preset]
        self.needs_model = self._config.preset != "generic"
        self._argv = _command_line(self._config.argv or self._preset.argv, self._config.args, "{prompt}")

    async def propose(self, ask: Ask) -> Proposal | None:
        """What the command makes of a copy of the parent. Raises AgentError."""
        assert self._bench is not None, "equip comes first"
        config = self._config
        job = self._job(ask, config, self._argv, **self._told(config, self._preset))
        return await work(self._bench, ask, job, name=_named(config.preset, self._argv))


class PythonAgent(_Boxed):
    """Calls a function of the user's in a box; see `PythonConfig`."""

    name = "python"

    def __init__(self, config: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self._config = _read(PythonConfig, config, self.name)
        path = Path(self._config.file)
        if not path.is_file():
            raise InputError(
                "no such file", file=path, key="policy.agent.config.file", mend="give the path of a .py file"
            )
        self._source = path.read_bytes()

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
        files = {
            "call.py": _driver("call.py"),
            "agent/user_agent.py": self._source,
            "ask.json": json.dumps(known).encode(),
        }
        argv = (mounts.python(config.mounts), "/tmp/call.py", config.function)  # noqa: S108 - the box's
        job = self._job(ask, config, argv, files=files)
        return await work(self._bench, ask, job, name=f"{Path(config.file).stem}.{config.function}")


class AcpAgent(_Boxed):
    """Drives an agent over the Agent Client Protocol; see `AcpConfig`."""

    name = "acp"

    def __init__(self, config: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self._config = _read(AcpConfig, config, self.name)
        self._preset = PRESETS[self._config.preset]
        self.needs_model = self._config.preset != "generic"
        self._argv = _command_line(self._config.argv or self._preset.acp, self._config.args, "--acp")

    async def propose(self, ask: Ask) -> Proposal | None:
        """What the agent makes of a copy of the parent. Raises AgentError."""
        assert self._bench is not None, "equip comes first"
        config = self._config
        argv = ("python", "/tmp/acp.py", PROMPT, *self._argv)  # noqa: S108 - the box's
        told = self._told(config, self._preset, {"acp.py": _driver("acp.py")})
        job = self._job(ask, config, argv, **told)
        return await work(self._bench, ask, job, name=_named(config.preset, self._argv))


def _command_line(argv: Sequence[str], args: Sequence[str], example: str) -> tuple[str, ...]:
    if argv:
        return (*argv, *args)
    mend = f'give argv = ["my-agent", "{example}"], or a preset'
    raise InputError("no command line", key="policy.agent.config.argv", mend=mend)


def _named(preset: str, argv: Sequence[str]) -> str:
    return preset if preset != "generic" else Path(argv[0]).name


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


def _laid(job: Job, more: Mapping[str, object]) -> Job:
    from dataclasses import replace  # noqa: PLC0415 - one use

    return replace(job, **more)  # pyright: ignore[reportArgumentType] - fields of Job, given by this module alone


def _driver(name: str) -> bytes:
    return (resource("sandbox") / "agents" / name).read_bytes()


def _told(attempt: object) -> dict[str, object]:
    names = ("ticket", "parent", "variant", "verdict", "score", "parent_score", "note", "reason")
    return {name: getattr(attempt, name) for name in names}


def _pairs(lines: Sequence[str]) -> dict[str, str]:
    return {name: value for name, _, value in (row.partition("=") for row in lines)}


def _read(model: type[_Config], config: Mapping[str, object] | None, name: str) -> _Config:
    try:
        read = model.model_validate(dict(config or {}))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(["policy.agent.config", *map(str, first["loc"])])
        known = ", ".join(sorted(model.model_fields))
        raise InputError(first["msg"], key=key, mend=f"the {name} agent knows {known}") from None
    for folder in read.mounts:
        if not Path(folder).is_absolute() or not Path(folder).is_dir():
            raise InputError(
                f"{folder!r} is no absolute path of a folder",
                key="policy.agent.config.mounts",
                mend="give folders as they are on this machine, such as a virtual environment",
            )
    return read
