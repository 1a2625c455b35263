"""Give an optimizer its run: examples, boxes, model and budget; and say early what a subject lacks for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from harness.agent.base import Agent
from harness.agent.registry import make_agent
from harness.errors import InputError
from harness.evaluation.simulation import load_world
from harness.evaluation.subject import Subject
from harness.model.route import DEFAULT
from harness.optimizer.admit import seed_fault
from harness.optimizer.base import Example, Foresees, Given, Role
from harness.optimizer.registry import is_optimizer, optimizer_names
from harness.policy.budget import Budget
from harness.policy.schema import Policy
from harness.records import Json, Outcome, Split
from harness.research.baseline import least_rollouts
from harness.research.decide import worst_case
from harness.research.models import NO_MODEL
from harness.research.optimize.agent import MODEL_KEYS, OptimizerAgent
from harness.research.optimize.host import Measured, Model, RunHost, cut, slot_files, slots_of
from harness.research.optimize.model import GatewayModel, WorldModel, names
from harness.research.optimize.source import FileSource, PromptWorld, Source, WorldSource, visible_examples
from harness.research.roles import model_of
from harness.research.session import Session
from harness.research.vault import vault_rollouts


def make_proposer(name: str, config: Mapping[str, Json]) -> Agent:
    """The agent or optimizer called `name`. Raises InputError."""
    if is_optimizer(name):
        return OptimizerAgent.of(name, config)
    try:
        return make_agent(name, config)
    except InputError as error:
        if ":" in name or error.key != "agent.name":
            raise
        mend = f"{error.mend}; or an optimizer: {', '.join(optimizer_names())}"
        raise InputError(error.problem, key=error.key, mend=mend) from None


def check_subject(agent: Agent, subject: Subject, policy: Policy) -> None:
    """Raise InputError when `agent` is an optimizer and the subject cannot serve one."""
    if not isinstance(agent, OptimizerAgent):
        return
    for name, path in slot_files(subject.file, subject.root).items():
        if path not in subject.root or not subject.editable(path):
            raise InputError(
                f"{path!r} is not an editable file of this subject",
                key=f"slots.{name}.file",
                mend="name a file that subject.editable covers",
            )
        try:
            subject.root[path].data.decode()
        except UnicodeDecodeError:
            mend = "save it as UTF-8"
            raise InputError(f"{path!r} is not UTF-8 text", key=f"slots.{name}.file", mend=mend) from None
    if subject.file.eval.world is not None:
        _check_world(agent, subject.file.eval.world)
        _check_seeds(subject, cast("PromptWorld", load_world(subject.file.eval.world)).visible())
        _check_needs(agent, subject, policy)
        return
    if subject.file.eval.mode != "split":
        raise InputError(
            f"optimizers run single examples, which mode {subject.file.eval.mode!r} does not offer them",
            key="eval.mode",
            mend='use mode = "split"',
        )
    _check_seeds(subject, visible_examples(subject))
    if not policy.models:
        raise InputError(f"the optimizer {agent.optimizer.name!r} needs a model", key="policy.models", mend=NO_MODEL)
    known = {*policy.models, *(model.model for model in policy.models.values()), "", DEFAULT}
    for key in MODEL_KEYS:
        if (name := getattr(agent.settings, key)) not in known:
            raise InputError(
                f"the policy has no model {name!r}",
                key=f"agent.config.{key}",
                mend=f"one of {', '.join(policy.models)}, or add [policy.models.{name}]",
            )
    _check_roles(agent, policy)
    _check_needs(agent, subject, policy)


def _check_world(agent: OptimizerAgent, world: str) -> None:
    """Raise InputError for what a simulation has no use for: it would be ignored, and nobody would know."""
    if not hasattr(load_world(world), "complete"):
        raise InputError(f"{world!r} has no prompts to optimize", key="agent.name", mend="take a search agent")
    if agent.settings.judge:
        mend = "leave it out, or take a subject with a model: archives/dialogue, archives/tool-calls"
        raise InputError("a simulation has no replies that a model could judge", key="agent.config.judge", mend=mend)


def _check_seeds(subject: Subject, examples: Sequence[Example]) -> None:
    """Raise InputError for a seed that breaks its own slot's rules: edits that keep that part would be refused."""
    for slot in slots_of(subject.file, subject.root):
        if fault := seed_fault(slot, examples):
            file = slot_files(subject.file, subject.root)[slot.name]
            mend = f"correct {file}, or required, engine and max_chars of the slot"
            raise InputError(f"{file} could not be an edit of itself: {fault}", key=f"slots.{slot.name}", mend=mend)


def _check_roles(agent: OptimizerAgent, policy: Policy) -> None:
    """Raise InputError for a role that falls to the model `default` where there are several and none is called so.

    Which model the program asks for is its own affair where `serves` names none.
    """
    if DEFAULT in policy.models or len(policy.models) == 1:
        return
    config = agent.settings.model_dump()
    for role in (Role.PROPOSES, *([Role.EVALUATES] if agent.settings.judge else [])):
        if DEFAULT in model_of(role, config).split(" and "):
            names = ", ".join(policy.models)
            raise InputError(
                f"no model is named for the role {role.value!r}, and none is called {DEFAULT!r}",
                key=f"agent.config.{role.value}",
                mend=f"name one of {names}: --set agent.config.{role.value}=NAME, or `{role.value}: NAME` in the file",
            )


def _check_needs(agent: OptimizerAgent, subject: Subject, policy: Policy) -> None:
    """Raise what an optimizer lacks, before anything is run: a package, a slot, or room for its first step."""
    if agent.settings.critic_wrong and subject.file.eval.world is None:
        mend = "it is for simulations: leave it out"
        raise InputError("a model's advice is as it is", key="agent.config.critic_wrong", mend=mend)
    if not isinstance(agent.optimizer, Foresees):
        return
    needed = agent.optimizer.needs(_given(agent, subject), agent.config)
    kept = _kept(agent, subject, policy, deterministic=True)
    if (most := agent.settings.most_rollouts) and most < needed:
        raise InputError(
            f"{most} do not cover the first step of {agent.name}, which takes {needed}",
            key="agent.config.most_rollouts",
            mend=f"give at least {needed}, or smaller batches",
        )
    if policy.budget.rollouts - kept < needed:
        raise InputError(
            f"{policy.budget.rollouts} do not cover the first step of {agent.name}, which takes {needed} beside {kept} "
            "for root, nominees and vault",
            key="budget.rollouts",
            mend=f"give at least {needed + kept}, or smaller batches in agent.config",
        )


def too_few_when_noisy(agent: Agent, subject: Subject, policy: Policy) -> str:
    """What a budget does not cover if two runs of the root differ, which nobody knows beforehand; "" when it covers
    root, a first step and the vault in any case."""
    if isinstance(agent, OptimizerAgent):
        optimizer = agent.optimizer
        step = optimizer.needs(_given(agent, subject), agent.config) if isinstance(optimizer, Foresees) else 1
        needed = _kept(agent, subject, policy, deterministic=False) + step
    else:
        needed = least_rollouts(policy, subject.splits, deterministic=False) + 1
    if policy.budget.rollouts >= needed:
        return ""
    return (
        f"{policy.budget.rollouts} rollouts may be too few: should two runs of the root differ, root, a first step and "
        f"vault take {needed} (budget.rollouts; gate.pairs = {policy.gate.pairs} repeats each of them)"
    )


def _kept(agent: OptimizerAgent, subject: Subject, policy: Policy, *, deterministic: bool) -> int:
    """The rollouts that an optimizer leaves for root, nominees and vault."""
    gate, held = policy.gate, Split.HOLDOUT in subject.splits
    ticket = 1 + gate.recheck + held if deterministic else 1 + 2 * gate.pairs + 2 * policy.holdout.pairs * held
    least = least_rollouts(policy, subject.splits, deterministic=deterministic)
    return least + agent.settings.finalists * ticket


def _given(agent: OptimizerAgent, subject: Subject) -> Given:
    world = subject.file.eval.world
    examples = visible_examples(subject) if world is None else cast("PromptWorld", load_world(world)).visible()
    parts = cut(examples, 0, agent.settings.train_share)
    return Given(slots_of(subject.file, subject.root), len(parts["train"]), len(parts["val"]))


def bind_optimizer(session: Session, budget: Budget) -> None:
    """Let the session's optimizer, if it has one, spend from `budget` through the session's own parts."""
    agent = session.agent
    if not isinstance(agent, OptimizerAgent):
        return
    source, model = _parts(session, agent)

    def open_host(ticket: int, most: int, known: Mapping[Measured, Outcome]) -> RunHost:
        return RunHost(
            ticket=ticket,
            seed=session.seed,
            root=session.subject.root,
            file=session.subject.file,
            source=source,
            model=model,
            store=session.store,
            rollouts=session.rollouts,
            budget=budget,
            reserve=vault_rollouts(session) + agent.settings.finalists * worst_case(session),
            deterministic=session.standing.deterministic,
            train_share=agent.settings.train_share,
            most=most,
            judge=agent.settings.judge,
            known=known,
        )

    agent.bind(session.archive, open_host)


def _parts(session: Session, agent: OptimizerAgent) -> tuple[Source, Model]:
    world = session.subject.file.eval.world
    if world is not None:
        made = cast("PromptWorld", load_world(world))
        if agent.settings.critic_wrong:
            made = made.misled(agent.settings.critic_wrong)
        return WorldSource(made), WorldModel(made, session.seed)
    if session.models is None:
        raise InputError(f"the optimizer {agent.optimizer.name!r} needs a model", key="policy.models", mend=NO_MODEL)
    at = agent.settings
    name_of = names(at.proposes, at.gradient_model, at.editor_model, at.evaluates or at.evaluator_model, at.serves)
    return FileSource(session.subject, session.on_examples), GatewayModel(
        session.models, session.seed, name_of, at.max_tokens
    )
