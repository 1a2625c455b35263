"""The vault: examples no gate ever asked, opened once, for the number in the report."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.evaluation.result import examples
from harness.failpoint import failpoint
from harness.records import Json, Outcome, RolloutKey, Split, Status, Variant
from harness.research.evidence.paired import averages, mean_items
from harness.research.evidence.statistics import mcnemar, paired_bootstrap, student_quantile, wilson
from harness.research.rollouts import cite, same_items
from harness.research.session import Session
from harness.research.standing import ROOT
from harness.streams import stream

_MARGIN = 2.0


def vault_rollouts(session: Session) -> int:
    """How many rollouts must be left for the vault."""
    return 2 * _repeats(session) if session.has(Split.VAULT) else 0


def vault_s(session: Session) -> float:
    """Seconds to keep back for the vault: twice what the rollouts of root and best took, larger with its inputs."""
    if not vault_rollouts(session):
        return 0.0
    took, standing = session.rollouts.took, session.standing
    longest = max(took.values(), default=0.0)
    both = sum(took.get(one.tree, longest) for one in (standing.variants[ROOT], standing.incumbent))
    measured = [split for split in session.subject.splits if split is not Split.VAULT]
    share = min((larger(session, split) for split in measured), default=1.0)
    return _MARGIN * share * _repeats(session) * both


def larger(session: Session, split: Split) -> float:
    """How many times the inputs of the vault are as large as those of `split`; at least once."""
    sizes = {one: sum(len(file.data) for file in data.inputs.values()) for one, data in session.subject.splits.items()}
    known = sizes.get(split, 0)
    return max(1.0, sizes.get(Split.VAULT, 0) / known) if known else 1.0


async def open_vault(session: Session) -> dict[str, Json]:
    """Run root and best on the vault and record both with their intervals; the `vault` entry's body."""
    if not session.has(Split.VAULT):
        return await leave_vault_shut(session, "the subject has no vault split")
    root, best = session.standing.variants[ROOT], session.standing.incumbent
    cited: list[Json] = []
    of_root = await _measure(session, root, cited)
    of_best = of_root if best.id == ROOT else await _measure(session, best, cited)
    expected = frozenset(of_root[0].items) if of_root[0].status is Status.OK else None
    of_best = [same_items(outcome, expected) for outcome in of_best]
    failpoint("vault-measured")
    binary = all(_binary(outcome) for outcome in [*of_root, *of_best])
    body: dict[str, Json] = {
        "rollouts": cited,
        "root": _claim(root, of_root, binary),
        "best": _claim(best, of_best, binary),
        "gain": None if best.id == ROOT else _gain(session, of_root, of_best),
    }
    sampled = _sampling(session, of_root, of_best)
    if sampled:
        body["sampling"] = sampled
    await session.hold.append("vault", body)
    return body


async def leave_vault_shut(session: Session, why: str) -> dict[str, Json]:
    """Record that there is no vault number, and why."""
    body: dict[str, Json] = {"rollouts": [], "root": None, "best": None, "why": why}
    await session.hold.append("vault", body)
    return body


def _repeats(session: Session) -> int:
    return 1 if session.standing.deterministic else session.policy.gate.pairs


async def _measure(session: Session, variant: Variant, cited: list[Json]) -> list[Outcome]:
    tree = await session.store.read(variant.tree)
    keys = [RolloutKey(variant.tree, Split.VAULT, repeat, 0, "vault") for repeat in range(_repeats(session))]
    outcomes = await session.rollouts.run_all(keys, tree)
    for key, outcome in zip(keys, outcomes, strict=True):
        cited.append(cite(key, session.rollouts.seed_of(key), outcome))
    return outcomes


def _claim(variant: Variant, outcomes: Sequence[Outcome], binary: bool) -> dict[str, Json]:
    scores = [outcome.score for outcome in outcomes if outcome.score is not None]
    if len(scores) < len(outcomes):
        failed = next(outcome for outcome in outcomes if outcome.status is not Status.OK)
        return {"id": variant.id, "metric": None, "ci": None, "interval": None, "why": failed.detail[:300]}
    mean = math.fsum(scores) / len(scores)
    interval, how = _interval(outcomes, scores, mean, binary)
    return {"id": variant.id, "metric": mean, "ci": interval, "interval": how}


def _interval(
    outcomes: Sequence[Outcome], scores: Sequence[float], mean: float, binary: bool
) -> tuple[list[Json] | None, str]:
    """95 %: Wilson over examples if all items of root and best are 0 or 1, else t over examples or repeats, or none."""
    items = examples(mean_items(outcomes))
    if items and binary and averages(mean, items):
        return list(wilson(mean, len(items))), f"95 % Wilson over {len(items)} examples"
    if items and averages(mean, items) and len(items) > 1:
        values = list(items.values())
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
        half = student_quantile(0.975, len(values) - 1) * spread / math.sqrt(len(values))
        return [mean - half, mean + half], f"95 % t over {len(values)} examples"
    if len(scores) > 1:
        spread = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / (len(scores) - 1))
        half = student_quantile(0.975, len(scores) - 1) * spread / math.sqrt(len(scores))
        return [mean - half, mean + half], f"95 % t over {len(scores)} repeats"
    return None, "no interval: one run, and the metric is not the mean of its items"


def _gain(session: Session, of_root: Sequence[Outcome], of_best: Sequence[Outcome]) -> dict[str, Json] | None:
    """The paired difference over examples, positive for better: mean, 95 % bootstrap interval, exact p."""
    root, best = examples(mean_items(of_root)), examples(mean_items(of_best))
    if not root or root.keys() != best.keys():
        return None
    gains = [session.gate.gain(best[item], root[item]) for item in root]
    p, interval = paired_bootstrap(gains, stream(session.seed, "vault-bootstrap"))
    gain: dict[str, Json] = {"mean": math.fsum(gains) / len(gains), "ci": list(interval), "p_bootstrap": p}
    if len(of_root) == 1 and _binary(of_root[0]) and _binary(of_best[0]):
        gain["p_mcnemar"] = mcnemar(sum(g > 0 for g in gains), sum(g < 0 for g in gains))
    return gain


def _sampling(session: Session, of_root: Sequence[Outcome], of_best: Sequence[Outcome]) -> dict[str, Json]:
    """What sampling alone would give: the root's best of k per example (the matched-budget baseline), and how much of
    each is right on all k repeats. Only where a metric is noisy and the mean of its 0/1 items; else there is nothing
    that a rerun of the root could add."""
    found: dict[str, Json] = {}
    for name, outcomes in (("root", of_root), ("best", of_best)):
        items = mean_items(outcomes)
        scores = [outcome.score for outcome in outcomes if outcome.score is not None]
        whole = all(averages(outcome.score or 0.0, outcome.items) and _binary(outcome) for outcome in outcomes)
        if len(scores) < 2 or not items or not whole:
            return {}
        better = min if session.gate.direction == "min" else max
        worse = max if session.gate.direction == "min" else min
        ids = sorted(examples(items))
        found[name] = {
            "repeats": len(outcomes),
            "best_of": math.fsum(better(one.items[item] for one in outcomes) for item in ids) / len(ids),
            "on_all": math.fsum(worse(one.items[item] for one in outcomes) for item in ids) / len(ids),
        }
    return found


def _binary(outcome: Outcome) -> bool:
    return all(score in (0.0, 1.0) for score in examples(outcome.items).values())
