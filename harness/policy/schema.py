"""The shapes of `strop.toml` and of a policy, frozen and strict: an unknown key is an error.

`Policy` is what the run obeys; `SubjectFile` is what the user writes beside their code. Defaults are the values
a guarded run should have when nobody says otherwise.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Annotated, ClassVar, Literal, Self

from pydantic import (
    Field,
    field_validator,
    model_validator,
)

from harness.limits import Limits
from harness.policy.budget import BudgetPolicy
from harness.policy.honest import AnchorTable, GuardTable, PlausibleTable
from harness.policy.strict import Strict
from harness.policy.telemetry import TelemetryPolicy
from harness.policy.words import Argv, Endpoint, EnvName, KeyName, Word
from harness.records import Direction, Split

# An absolute, clean path that hides nothing of a box's own.
MOUNT = r"^/(data/[A-Za-z0-9_][\w.-]*|mnt|models|datasets|srv)(/[A-Za-z0-9_][\w.-]*)*$"
BoxName = Literal["auto", "docker", "embedded", "process"]


class AgentPolicy(Strict):
    """Who proposes: a registered name or `module:Name`, and its own settings."""

    name: str = "search"
    config: dict[str, bool | int | float | str | list[str]] = Field(default_factory=dict)


class PricePolicy(Strict):
    """USD for a million tokens; `cached_input` and `cache_write` for input that an upstream's cache gave or took."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached_input: float | None = Field(default=None, ge=0)
    cache_write: float | None = Field(default=None, ge=0)


class ModelPolicy(Strict):
    """`[models.NAME]`: where calls for NAME go.

    `model` is the upstream's own name for it (NAME when empty); `api_key_env` names the environment variable that holds
    the key, which never enters a box, a record or a log; `max_output_tokens` caps every reply, so that its worst case
    is known before it is asked for; `patience_s` is how long one call waits out an upstream that is down.
    """

    base_url: Endpoint
    model: str = ""
    api_key_env: KeyName = ""
    price: PricePolicy | None = None
    max_output_tokens: int = Field(default=8192, ge=1)
    concurrency: int = Field(default=64, ge=1)
    connect_s: float = Field(default=10.0, gt=0)
    first_byte_s: float = Field(default=180.0, gt=0)
    idle_s: float = Field(default=60.0, gt=0)
    total_s: float = Field(default=900.0, gt=0)
    patience_s: float = Field(default=1800.0, gt=0)


class StopPolicy(Strict):
    """When to stop early. `plateau` is how many tickets in a row may pass without a keep; 0 never stops for that.

    `divergence` is how many gains in a row the holdout may refuse, with none held in between: the visible score rises
    and the hidden one does not. 0 never stops for that. `agent_failures` is how many tickets in a row the agent may
    fail at, such as by replies that cannot be used.
    """

    added: ClassVar[frozenset[str]] = frozenset({"divergence", "agent_failures"})

    plateau: int = Field(default=0, ge=0)
    divergence: int = Field(default=0, ge=0)
    agent_failures: int = Field(default=8, ge=1)
    infra_failures: int = Field(default=5, ge=1)


class GatePolicy(Strict):
    """When a gain is real. See docs: alpha is spent over `candidates` (K) pre-declared comparisons.

    `spending`: "even" gives each comparison alpha / K, and none after the K-th; "series" gives the t-th
    alpha * 6 / (pi t)^2 and never ends. `items` "require" also asks the paired test over examples (exact McNemar
    for 0/1 scores, paired bootstrap else) at that level; "evidence" only records it. `simplicity` also keeps a smaller
    diff against the root that is not worse by more than `margin`. `recheck` runs a would-be keep of a deterministic
    metric a second time: one that answers differently was lucky.
    """

    added: ClassVar[frozenset[str]] = frozenset({"spending", "recheck", "simplicity", "margin", "items"})

    alpha: float = Field(default=0.05, gt=0, lt=1)
    candidates: int = Field(default=300, ge=1)
    pairs: int = Field(default=4, ge=2)
    min_effect: float = Field(default=0.0, ge=0)
    spending: Literal["even", "series"] = "even"
    items: Literal["evidence", "require"] = "evidence"
    simplicity: bool = False
    margin: float = Field(default=0.0, ge=0)
    recheck: bool = False


class HoldoutPolicy(Strict):
    """The hidden cross-check: one bit a query, and how many surprises before it is worn out.

    Worn out, it freezes (the run ends) or rotates: its examples are cut into `parts` beforehand, one is asked at a
    time, and the run ends when the last one is worn out. `method` "ladder" (arXiv 1502.04585) asks for a gain of at
    least `step`; "thresholdout" (arXiv 1506.02629) believes the visible gain unless all gains together are further than
    `threshold` from what they are on the holdout, with Laplace noise of scale `noise`; then it asks for 4 noise.
    """

    added: ClassVar[frozenset[str]] = frozenset({"step", "threshold", "parts", "noise", "method"})

    surprises: int = Field(default=5, ge=1)
    pairs: int = Field(default=2, ge=1)
    then: Literal["freeze", "rotate"] = "freeze"
    parts: int = Field(default=3, ge=2, le=100)
    method: Literal["bit", "ladder", "thresholdout"] = "bit"
    step: float = Field(default=0.01, gt=0)
    threshold: float = Field(default=0.04, gt=0)
    noise: float = Field(default=0.01, gt=0)


class SchedulePolicy(Strict):
    """How many tickets are in flight, and whether their order is fixed or as they arrive."""

    workers: int = Field(default=2, ge=1, le=256)


class ArchivePolicy(Strict):
    """Which children become parents.

    "incumbent" keeps the best variant alone. "keep_all" archives every functioning child, "keep_better" those not
    worse than the root by more than `margin` (a share of the metric's range), "capped" the `size` best or unlike the
    others. `novelty` is how alike child and parent may be (1 refuses what differs in layout alone). `control` takes one
    thing away. For `islands` and merges see docs/archive.md."""

    added: ClassVar[frozenset[str]] = frozenset({"islands", "migrate_every", "merge_every"})

    mode: Literal["incumbent", "keep_all", "keep_better", "capped"] = "incumbent"
    margin: float = Field(default=0.1, ge=0)
    size: int = Field(default=200, ge=2)
    novelty: float = Field(default=1.0, gt=0, le=1)
    control: Literal["none", "random_parent", "fixed_agent"] = "none"
    islands: int = Field(default=1, ge=1, le=64)
    migrate_every: int = Field(default=20, ge=1)
    merge_every: int = Field(default=0, ge=0)


class SelectPolicy(Strict):
    """The rule that draws a parent from the archive, and its parameters; see docs/archive.md."""

    rule: Literal["dgm", "greedy", "uniform", "best_only", "pareto", "hgm", "hyperagents"] = "dgm"
    lam: float = Field(default=10.0, gt=0)
    alpha0: float | Literal["median", "top3"] = 0.5
    exclude_solved: bool = False
    statistic: Literal["mean", "lower", "upper"] = "mean"


class StagePolicy(Strict):
    """One stage: `tasks` more of the visible tasks (0: all that are left), passed at a share of `threshold`."""

    tasks: int = Field(default=0, ge=0)
    threshold: float = Field(default=0.0, ge=0, le=1)


class StagesPolicy(Strict):
    """Staged evaluation on tasks. A stage stops early when the chance that the rest brings the share to its threshold
    is below `doubt`. A task is run `repeats` times, one on which the root's own runs disagree `unstable` times where
    that is more, and counts as the mean. `promote` takes a parent through its next stage when it is selected again."""

    added: ClassVar[frozenset[str]] = frozenset({"unstable"})

    plan: tuple[StagePolicy, ...] = (StagePolicy(),)
    doubt: float = Field(default=0.05, ge=0, lt=1)
    repeats: int = Field(default=1, ge=1, le=100)
    unstable: int = Field(default=1, ge=1, le=100)
    promote: bool = True


class BoxPolicy(Strict):
    """Which back end, and what each box may use. `auto` is docker where an engine answers and has the image, else
    embedded; it never means `process`. `image` is for docker boxes alone and is never pulled. `warm` keeps the box of a
    variant for its next rollout and starts each `python` in it as a fork of one that has imported `preload`: quicker
    for many short rollouts, and weaker. `mounts` is {place in every box: folder of yours}, read-only and pinned by
    content: never one with labels. `gpus` are NVIDIA devices by number or UUID, each for one rollout at a time; "all"
    gives every rollout all of them, and none runs beside it."""

    added: ClassVar[frozenset[str]] = frozenset({"image", "warm", "preload", "mounts", "gpus"})

    backend: BoxName = "auto"
    memory_mb: int = Field(default=2048, ge=16)
    cpus: float = Field(default=1.0, gt=0)
    pids: int = Field(default=64, ge=4)
    disk_mb: int = Field(default=256, ge=1)
    open_files: int = Field(default=256, ge=16)
    output_kb: int = Field(default=1024, ge=1)
    image: str | None = None
    warm: bool = False
    preload: tuple[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")], ...] = ()

    gpus: Literal["all"] | tuple[Annotated[str, Field(pattern=r"^[0-9]{1,3}$|^(GPU|MIG)-[\w/-]{1,80}$")], ...] = ()
    mounts: dict[Annotated[str, Field(pattern=MOUNT)], Annotated[str, Field(min_length=1)]] = Field(
        default_factory=dict[str, str]
    )

    @model_validator(mode="after")
    def _preload_is_for_a_warm_python(self) -> Self:
        if self.preload and not self.warm:
            raise ValueError("preload needs warm = true")
        return self

    @property
    def limits(self) -> Limits:
        """The limits of one box."""
        return Limits(**self.model_dump(include={field.name for field in fields(Limits)}))


class Policy(Strict):
    """Everything a run obeys."""

    added: ClassVar[frozenset[str]] = frozenset({"archive", "select", "stages", "models", "telemetry"})

    name: str = "guarded"
    agent: AgentPolicy = AgentPolicy()
    budget: BudgetPolicy = BudgetPolicy()
    stop: StopPolicy = StopPolicy()
    gate: GatePolicy = GatePolicy()
    holdout: HoldoutPolicy = HoldoutPolicy()
    schedule: SchedulePolicy = SchedulePolicy()
    box: BoxPolicy = BoxPolicy()
    archive: ArchivePolicy = ArchivePolicy()
    select: SelectPolicy = SelectPolicy()
    stages: StagesPolicy = StagesPolicy()
    models: dict[str, ModelPolicy] = Field(default_factory=dict)
    telemetry: TelemetryPolicy = TelemetryPolicy()


class SubjectTable(Strict):
    """`[subject]`: its name and the only paths that may differ from the root. One with `needs_model` asks a model when
    it is run, and is not run without `[policy.models]`."""

    added: ClassVar[frozenset[str]] = frozenset({"needs_model"})

    name: str = Field(min_length=1, max_length=80)
    editable: tuple[str, ...] = Field(min_length=1)
    ignore: tuple[str, ...] = ()
    needs_model: bool = False


class EvalTable(Strict):
    """`[eval]`: how a variant is run and how its outputs are scored.

    In split mode `score` runs in a second box that never sees candidate code; `files` are the scorer's own files
    (by default every file of the subject that `score` names). In inline mode the eval runs with the candidate and
    `result` says where its number is read from. In pytest mode the locked tests in `tests` (and of each split) run
    against the candidate, and the metric is the share of them that fail (or pass, for direction "max"). In simulation
    mode nothing is run: `world` (module:Name) makes the scores up, and every page says so. In tasks mode a variant is
    run on one task at a time, as in split mode; `format` says how the tasks are written down.
    """

    added: ClassVar[frozenset[str]] = frozenset({"world", "format", "tests", "guard", "plausible", "anchor"})

    mode: Literal["split", "inline", "pytest", "simulation", "tasks"]
    run: Argv = ("pytest",)
    score: Argv | None = None
    files: tuple[str, ...] | None = None
    metric: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.\-]{0,63}$")
    direction: Direction
    range: tuple[float, float] | None = None
    timeout_s: float = Field(default=60.0, gt=0, le=86_400)
    result: Literal["file", "stdout"] = "file"
    env: dict[EnvName, Word] = Field(default_factory=dict)
    world: str | None = None
    format: Literal["dataset", "harbor", "pytest", "humaneval", "reasoning_gym"] | None = None
    tests: tuple[str, ...] = ()
    guard: tuple[GuardTable, ...] = ()
    plausible: PlausibleTable = PlausibleTable()
    anchor: tuple[AnchorTable, ...] = ()

    @field_validator("range")
    @classmethod
    def _ordered(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and not (math.isfinite(value[0]) and math.isfinite(value[1]) and value[0] < value[1]):
            raise ValueError("must be two finite numbers, the lower one first")
        return value

    @model_validator(mode="after")
    def _modes(self) -> Self:
        if self.mode == "split" and self.score is None:
            raise ValueError("mode 'split' needs a `score` command for the scorer box")
        if self.anchor and self.mode != "split":
            raise ValueError("an `anchor` is graded by the scorer box, which only mode 'split' has")
        if self.mode == "inline" and (self.score is not None or self.files is not None):
            raise ValueError("mode 'inline' has no scorer box: remove `score` and `files`")
        if (self.mode == "tasks") != (self.format is not None):
            raise ValueError("`format` says how tasks are written down, and mode 'tasks' needs one")
        if (self.mode == "simulation") != (self.world is not None):
            raise ValueError("`world` names a simulated world, and mode 'simulation' needs one")
        if self.mode == "split" and self.result == "stdout":
            raise ValueError("mode 'split' reads /result/result.json only; `result = \"stdout\"` is for inline")
        if self.mode != "pytest" and "run" not in self.model_fields_set:
            raise ValueError(f"mode '{self.mode}' needs a `run` command")
        if self.mode == "pytest" and (self.run != ("pytest",) or self.score is not None or self.result != "file"):
            raise ValueError("mode 'pytest' has its own command: remove `run`, `score` and `result`")
        if self.tests and self.mode != "pytest":
            raise ValueError(f"mode '{self.mode}' has no `tests`; they are for mode 'pytest'")
        if self.mode != "split" and any(guard.metric for guard in self.guard) and self.result == "stdout":
            raise ValueError('a guard metric is read from the result file; `result = "stdout"` has one number only')
        return self


class SplitsTable(Strict):
    """`[splits]`: folders with `inputs/` and `labels/` in each. Split mode needs visible; holdout and vault too
    unless `allow_missing` owns up to running without them."""

    visible: str | None = None
    holdout: str | None = None
    vault: str | None = None
    allow_missing: bool = False

    def folder(self, split: Split) -> str | None:
        """The folder of one split, relative to the subject."""
        return {Split.VISIBLE: self.visible, Split.HOLDOUT: self.holdout, Split.VAULT: self.vault}[split]


class TasksTable(Strict):
    """`[tasks]`: what a format needs to know.

    `visible`, `holdout` and `vault` are how many tasks each split gets where a format draws them itself (humaneval,
    reasoning_gym), after a shuffle by `seed`. `labels` are the keys of a dataset's rows that only the scorer sees.
    `generators` are reasoning-gym's names, and `threshold` the score from which its answer counts as solved.
    """

    visible: int = Field(default=24, ge=1, le=10_000)
    holdout: int = Field(default=20, ge=0, le=10_000)
    vault: int = Field(default=20, ge=0, le=10_000)
    seed: int = Field(default=0, ge=0)
    labels: tuple[str, ...] = ("answer",)
    generators: tuple[str, ...] = ()
    threshold: float = Field(default=0.99, gt=0, le=1)


class EditorTable(Strict):
    """`[editor]`: the subject is an agent that can edit code, its own too.

    `run` edits the tree in /out after /data/problem.md. `imports` and `smoke` are commands that must end with 0 before
    a child is given a task; `probe` asks whether a child can still edit.
    """

    run: Argv
    imports: Argv | None = None
    smoke: Argv | None = None
    probe: bool = True
    timeout_s: float = Field(default=600.0, gt=0, le=86_400)


class SlotTable(Strict):
    """`[slots.NAME]`: a text that a prompt optimizer may rewrite, and the file it lives in.

    `required` placeholders survive every edit; `engine` is how the program fills the text in; `module` names the part
    of the program that reads it; a slot of kind "demos" holds a JSON list of worked examples.
    """

    file: str = Field(min_length=1)
    required: tuple[str, ...] = ()
    engine: Literal["raw", "braces", "jinja"] = "raw"
    max_chars: int = Field(default=8_000, ge=1)
    module: str = ""
    frozen: bool = False
    kind: Literal["text", "demos"] = "text"


class SubjectFile(Strict):
    """The whole of `strop.toml`. `policy` holds `use` and overrides; it is resolved by `load`."""

    added: ClassVar[frozenset[str]] = frozenset({"tasks", "editor", "slots"})

    subject: SubjectTable
    eval: EvalTable
    splits: SplitsTable = SplitsTable()
    tasks: TasksTable = TasksTable()
    editor: EditorTable | None = None
    slots: dict[str, SlotTable] = Field(default_factory=dict)
    policy: dict[str, object] = Field(default_factory=dict)
