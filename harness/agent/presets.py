"""How to run coding agents that people already have: argument templates and what each must be told.

In a template {prompt} is the whole prompt, {prompt_file} a file that holds it, {model} the model's name, and {editable}
becomes one argument for each editable file. The gateway's address is in the box's environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Preset:
    """One agent's command line, its environment, the files it wants below /tmp, and how it starts to speak ACP."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    acp: tuple[str, ...] = ()

    def program(self, argv: tuple[str, ...]) -> str:
        """What must be there to run `argv`, one of the templates above or a user's own."""
        return argv[_NAMED] if argv in (self.argv, self.acp) and argv[0] == "sh" else argv[0]


_NAMED = 3  # sh -c SCRIPT NAME: our scripts are called what they start
_QUIET = {"DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1", "DISABLE_AUTOUPDATER": "1"}

# left to itself it takes the base URL for a way to log in that its own check then refuses
_GEMINI = 'mkdir -p "$HOME/.gemini" && cp "${TMPDIR:-/tmp}/gemini.json" "$HOME/.gemini/settings.json"'
_OPENCODE = 'sed "s#BASE_URL#$OPENAI_BASE_URL#" "${TMPDIR:-/tmp}/opencode.in.json" > "$OPENCODE_CONFIG"'

PRESETS: Mapping[str, Preset] = {
    "claude": Preset(
        ("claude", "-p", "{prompt}", "--output-format", "json", "--dangerously-skip-permissions", "--model", "{model}"),
        {**_QUIET, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_ERROR_REPORTING": "1"},
    ),
    "codex": Preset(
        (
            "sh",
            "-c",
            'exec codex exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -m "$2" '
            '-c model_provider=strop -c "model_providers.strop={name=\\"strop\\",base_url=\\"$OPENAI_BASE_URL\\",'
            'env_key=\\"OPENAI_API_KEY\\",wire_api=\\"responses\\"}" "$1" < /dev/null',
            "codex",
            "{prompt}",
            "{model}",
        ),
        _QUIET,
    ),
    "gemini": Preset(
        (
            "sh",
            "-c",
            f'{_GEMINI} && exec gemini -p "$1" --output-format json --yolo -m "$2" < /dev/null',
            "gemini",
            "{prompt}",
            "{model}",
        ),
        {**_QUIET, "GEMINI_CLI_TRUST_WORKSPACE": "true"},
        {"gemini.json": '{{"security": {{"auth": {{"selectedType": "gemini-api-key"}}}}}}'},
        ("sh", "-c", f'{_GEMINI} && exec gemini --acp --yolo -m "$1"', "gemini", "{model}"),
    ),
    "opencode": Preset(
        (
            "sh",
            "-c",
            f'{_OPENCODE} && exec opencode run --format json -m "strop/$2" "$1" < /dev/null',
            "opencode",
            "{prompt}",
            "{model}",
        ),
        {**_QUIET, "OPENCODE_CONFIG": "/tmp/opencode.json", "OPENCODE_DISABLE_AUTOUPDATE": "1"},  # noqa: S108 - the box's
        {
            "opencode.in.json": '{{"provider": {{"strop": {{"npm": "@ai-sdk/openai-compatible", "name": "strop", '
            '"options": {{"baseURL": "BASE_URL", "apiKey": "none-needed-in-a-box"}}, '
            '"models": {{"{model}": {{"name": "{model}"}}}}}}}}, "permission": {{"edit": "allow", "bash": "allow"}}, '
            '"autoupdate": false, "share": "disabled", "model": "strop/{model}"}}'
        },
        ("sh", "-c", f"{_OPENCODE} && exec opencode acp", "opencode"),
    ),
    "aider": Preset(
        (
            "aider",
            "--yes-always",
            "--no-git",
            "--no-stream",
            "--no-check-update",
            "--no-show-model-warnings",
            "--no-show-release-notes",
            "--analytics-disable",
            "--no-detect-urls",
            "--no-suggest-shell-commands",
            "--model",
            "openai/{model}",
            "--message-file",
            "{prompt_file}",
            "{editable}",
        ),
        {**_QUIET, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    ),
    "mini-swe-agent": Preset(
        ("mini", "-m", "openai/{model}", "-t", "{prompt}", "-y", "--exit-immediately", "-o", "/tmp/mini.traj.json"),  # noqa: S108
        {
            **_QUIET,
            "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_SILENT_STARTUP": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
    ),
    "generic": Preset(()),
}
