"""The root, measured first: does it run, is its metric deterministic, how noisy is it."""

from __future__ import annotations

import math

from harness.errors import InputError
from harness.events import RootMeasured
from harness.failpoint import failpoint
from harness.policy.load import SUBJECT_FILE
from harness.records import Json, Outcome, RolloutKey, Split, Status
from harness.research.gate import noise
from harness.research.rollouts import cite
from harness.research.session import Session

REPEATS_WHEN_NOISY = 4
ROOT_ROLLOUTS = REPEATS_WHEN_NOISY + 1


async def measure_root(session: Session, tree: str) -> None:
    """Run the root twice (four times if the runs differ) on visible and once on holdout; record it.

    Raises InputError if the root has no score: there is nothing to improve on.
    """
    keys = [RolloutKey(tree, Split.VISIBLE, repeat, 0, "root") for repeat in range(2)]
    outcomes = [await _run(session, key) for key in keys]
    deterministic = outcomes[0].score == outcomes[1].score and outcomes[0].items == outcomes[1].items
    if not deterministic:
        more = [RolloutKey(tree, Split.VISIBLE, repeat, 0, "root") for repeat in range(2, REPEATS_WHEN_NOISY)]
        keys += more
        outcomes += [await _run(session, key) for key in more]
    scores = [outcome.score for outcome in outcomes if outcome.score is not None]
    score = scores[0] if deterministic else math.fsum(scores) / len(scores)
    item_ids: dict[str, Json] = {Split.VISIBLE.value: [*sorted(outcomes[0].items)]}
    holdout: float | None = None
    if session.has(Split.HOLDOUT):
        key = RolloutKey(tree, Split.HOLDOUT, 0, 0, "root")
        outcome = await _run(session, key)
        keys.append(key)
        outcomes.append(outcome)
        holdout = outcome.score
        item_ids[Split.HOLDOUT.value] = [*sorted(outcome.items)]
    failpoint("root-measured")
    body: dict[str, Json] = {
        "rollouts": [cite(k, session.rollouts.seed_of(k), o) for k, o in zip(keys, outcomes, strict=True)],
        "score": score,
        "deterministic": deterministic,
        "noise": noise(scores),
        "holdout": holdout,
        "item_ids": item_ids,
    }
    await session.hold.append("root", body)
    session.standing.apply_root(body, tree)
    session.emit(RootMeasured(score, deterministic, session.standing.noise))


async def _run(session: Session, key: RolloutKey) -> Outcome:
    outcome = await session.rollouts.run(key, session.subject.root)
    if outcome.status is not Status.OK:
        raise InputError(
            f"the root itself has no score on {key.split}: {outcome.status}: {outcome.detail}",
            file=SUBJECT_FILE,
            key="eval",
            mend="make the subject run and score as it is, then start again",
        )
    return outcome
