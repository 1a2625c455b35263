"""What a run may claim, each claim with the bound that belongs beside it. The same words in terminal and page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from harness.records import Verdict
from harness.report.numbers import as_float, change, count, duration, interval, number, part, words
from harness.untrusted import line

if TYPE_CHECKING:
    from harness.records import Json


@dataclass(frozen=True, slots=True)
class Claim:
    """One number of root and best. `bound` says how far to trust it; `gain` is relative to the root.

    The intervals are at 95 %, and empty where there are none.
    """

    label: str
    root: str
    best: str
    gain: str
    bound: str
    root_interval: str = ""
    best_interval: str = ""


def claims(summary: Mapping[str, Json]) -> list[Claim]:
    """Visible, then vault: the holdout gives one bit and no number, so it has its own sentence."""
    root, best, vault = part(summary, "root"), part(summary, "incumbent"), part(summary, "vault")
    visible = Claim(
        "visible",
        number(root.get("metric")),
        number(best.get("metric")),
        change(as_float(best.get("metric")), as_float(root.get("metric"))),
        "seen by the search: optimistic" + ("; posterior means" if best.get("interval") else ""),
        interval(root.get("interval")),
        interval(best.get("interval")),
    )
    opened = [side for side in (part(vault, "root"), part(vault, "best")) if side]
    if len(opened) < 2:
        return [visible]
    before, after = opened
    return [
        visible,
        Claim(
            "vault",
            number(before.get("metric")),
            number(after.get("metric")),
            change(as_float(after.get("metric")), as_float(before.get("metric"))),
            "; ".join(filter(None, [_how(before, after), _paired(part(vault, "gain"))])),
            interval(before.get("ci")),
            interval(after.get("ci")),
        ),
    ]


def holdout_claim(summary: Mapping[str, Json]) -> str:
    """The holdout's verdict with eps, its error bound over all queries, beside it."""
    asked = part(summary, "holdout")
    if not part(summary, "root"):
        return "not asked yet"
    if not asked or asked.get("verdict") == "no holdout":
        return "none: nothing hidden checks the visible numbers"
    verdict = f"{line(str(asked['verdict']))}: " if asked.get("verdict") else ""
    eps = as_float(asked.get("eps"))
    bound = f", eps {eps:.3f}" if eps is not None else ""
    queries = _count(asked.get("queries"), "quer", "y", "ies")
    return f"{verdict}{queries}, {_count(asked.get('surprises'), 'surprise')}{bound}"


def vault_claim(summary: Mapping[str, Json]) -> str:
    """The vault's two numbers with their intervals, or why there are none."""
    vault = part(summary, "vault")
    found = [claim for claim in claims(summary) if claim.label == "vault"]
    if found:
        claim = found[0]
        before, after = f"root {claim.root} {claim.root_interval}", f"best {claim.best} {claim.best_interval}"
        return "  ".join(filter(None, [before.rstrip() + " ->", after.rstrip(), claim.gain, f"({claim.bound})"]))
    if vault.get("why"):
        return f"none: {line(str(vault['why']))}"
    return "not opened yet"


def baseline_claim(summary: Mapping[str, Json]) -> str:
    """What reruns of the root would have come to for the same budget, and how much is right on every repeat."""
    found = part(summary, "baseline")
    if not found:
        return ""
    k, sides, luck = found.get("k"), part(found, "on_all"), part(found, "luck")
    again = f"the root run again: {number(found.get('best_of'))}"
    if found.get("deterministic") and found.get("differed"):
        times = count(as_float(found.get("differed")) or 0)
        return f"{again}; {times} of the candidates' second runs answered otherwise: the eval, or they, depend on luck"
    if found.get("deterministic"):
        return f"{again}, as deterministic as every repeat of the best"
    unit = "per example" if found.get("by") == "examples" else "of whole runs"
    best_of = f"the root's best of {k} {unit}: {number(found.get('best_of'))} on vault"
    on_all = f"worst of {k}: root {number(sides.get('root'))}, best {number(sides.get('best'))}"
    lucky = (
        f"{count(as_float(luck.get('rollouts')) or 0)} lucky reruns of the root would read {number(luck.get('metric'))}"
    )
    return f"{best_of}; {on_all}; {lucky} on visible"


def cost_claim(summary: Mapping[str, Json]) -> str:
    """What was spent of what was allowed."""
    spent: list[str] = []
    for name, used, limit in budget_rows(summary):
        if name == "steps":
            continue
        say = duration if name.endswith("_s") else count
        of = f" of {say(limit)}" if limit is not None else ""
        spent.append(f"{say(used)}{of} {name.removesuffix('_s')}")
    lost = summary.get("lost_rollouts")
    return ", ".join(spent) + (f", {lost} rollouts lost to interruptions" if lost else "")


def raised_claim(summary: Mapping[str, Json]) -> str:
    """Which budgets grew while the run was interrupted; empty where none did."""
    rows = summary.get("raised")
    said: list[str] = []
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict):
            name = str(row.get("kind"))
            say = duration if name.endswith("_s") else count
            grew = " to ".join(say(as_float(row.get(side)) or 0.0) for side in ("from", "to"))
            said.append(f"{name.removesuffix('_s')} raised from {grew} after ticket {row.get('after')}")
    return ", ".join(said)


def models_claim(summary: Mapping[str, Json]) -> str:
    """What model calls took, by role and by the dearest variants; empty for a run without any."""
    roles = part(summary, "models")
    variants = part(part(summary, "model_costs"), "variants")
    if not roles:
        return ""
    said = [f"{role} {_spent(part(roles, role))}" for role in roles]
    dear = sorted(variants, key=lambda name: _weight(part(variants, name)), reverse=True)[:3]
    names = [
        f"{'tickets without a variant' if name == 'none' else name} {_price(part(variants, name))}" for name in dear
    ]
    return "; ".join(said) + (f"; dearest: {', '.join(names)}" if len(variants) > 1 else "")


def optimizer_claim(summary: Mapping[str, Json]) -> str:
    """How far an optimizer came and why it stopped; empty for a run without one."""
    found = part(summary, "optimizer")
    if not found:
        return ""
    came = f"{_count(found.get('step'), 'step')}, {count(as_float(found.get('rollouts')) or 0)} rollouts of its own"
    reason, left = line(str(found.get("reason") or "")), int(as_float(found.get("nominees")) or 0)
    untried = f"; {_count(left, 'nominee')} of it not tried" if left else ""
    return f"{line(str(summary.get('agent')))}: {came}; " + (f"done: {reason}{untried}" if reason else "not done")


def role_claims(roles: Mapping[str, Json], *, asked: bool = False) -> list[tuple[str, str]]:
    """(role, its model, what that took, and how many replies were of no use) of an optimizer's run.

    `asked` leaves out roles that nothing was asked of.
    """
    return [(name, _role(part(roles, name))) for name in roles if not asked or _replies(part(roles, name))]


def _replies(role: Mapping[str, Json]) -> float:
    return max(as_float(role.get("requests")) or 0.0, as_float(role.get("replies")) or 0.0)


def _role(role: Mapping[str, Json]) -> str:
    asked, replies = as_float(role.get("requests")) or 0.0, _replies(role)
    model = line(str(role.get("model")), 80)
    if not replies:
        return f"{model}: not asked"
    took = _spent(role) if asked else f"{count(replies)} replies"
    unusable = part(role, "unusable")
    lost = sum(as_float(times) or 0.0 for times in unusable.values())
    if not lost:
        return f"{model}: {took}"
    worst = sorted(unusable.items(), key=lambda one: -(as_float(one[1]) or 0.0))
    whys = ", ".join(f"{count(as_float(times) or 0.0)} {line(why, 200)}" for why, times in worst)
    return f"{model}: {took}; {count(lost)} of {count(replies)} replies unusable ({whys})"


def _spent(spend: Mapping[str, Json]) -> str:
    calls, ins, outs = (as_float(spend.get(name)) or 0.0 for name in ("requests", "tokens_in", "tokens_out"))
    told = f"{count(calls)} calls, {count(ins)} tokens in, {count(outs)} out"
    usd = as_float(spend.get("usd"))
    return told + (f", {usd:.4g} USD" if usd else "") + (" (in part estimated)" if spend.get("estimated") else "")


def _price(spend: Mapping[str, Json]) -> str:
    usd = as_float(spend.get("usd"))
    return f"{usd:.4g} USD" if usd else f"{count(_weight(spend)[1])} tokens"


def _weight(spend: Mapping[str, Json]) -> tuple[float, float]:
    tokens = (as_float(spend.get("tokens_in")) or 0.0) + (as_float(spend.get("tokens_out")) or 0.0)
    return as_float(spend.get("usd")) or 0.0, tokens


def budget_rows(summary: Mapping[str, Json]) -> list[tuple[str, float, float | None]]:
    """(name, used, limit) of every budget line."""
    return [
        (name, as_float(usage.get("used")) or 0.0, as_float(usage.get("limit")))
        for name, usage in part(summary, "budget").items()
        if isinstance(usage, dict)
    ]


def mode_claim(summary: Mapping[str, Json]) -> str:
    """How the number came about, and what that cannot promise."""
    if summary.get("mode") == "simulation":
        return "simulation: no code was run, the scores are made up by a simulated world"
    if summary.get("mode") == "pytest":
        return "pytest: candidate and tests run as one program, so a candidate can change what is measured"
    if summary.get("mode") == "inline":
        return "inline: candidate and eval run as one program, so a candidate can change what is measured"
    return "split: a second box, without candidate code, computes the score"


def working_tree_claim(found: Mapping[str, Json]) -> str:
    """How the root differs from the subject's last commit; nothing when it does not."""
    counts = part(found, "counts")
    said = [
        f"{_count(counts.get(kind), *noun)} {what} ({_some(found.get(kind), counts[kind])})"
        for kind, noun, what in (
            ("changed", ("file",), "with uncommitted changes: the root has them as they lie there"),
            ("untracked", ("file", " or folder", "s or folders"), "not tracked by git and left out"),
        )
        if counts.get(kind)
    ]
    return "; ".join(said)


def _some(names: Json, count: Json) -> str:
    found = names if isinstance(names, list) else []
    more = f" and {int(as_float(count) or 0) - 3} more" if len(found) > 3 else ""
    return ", ".join(line(str(name), 60) for name in found[:3]) + more


def rootless(summary: Mapping[str, Json]) -> bool:
    """Whether the run ended because its root has no score: then there is nothing that `strop resume` could do."""
    return not part(summary, "root") and "the root itself has no score" in str(summary.get("reason"))


def waiting_claim(name: str, wait: Mapping[str, Json]) -> str:
    """Which model a live run waits for, and how long by now."""
    try:
        waited = (datetime.now(UTC) - datetime.fromisoformat(str(wait.get("since")))).total_seconds()
    except (ValueError, TypeError):
        waited = 0.0
    limit = as_float(wait.get("patience_s")) or 0.0
    return f"for model {line(name, 80)}: {line(str(wait.get('reason')), 200)}, {max(waited, 0.0):.0f} s of {limit:g}"


def isolation_claim(summary: Mapping[str, Json]) -> str:
    """The box back end, and what it is not."""
    return line(str(summary.get("isolation") or "not opened yet"))


def why(verdict: Verdict, reason: str, evidence: Mapping[str, Json]) -> str:
    """Why a ticket ended as it did, from the numbers its decision rests on.

    For the owner of the run. It tells of the holdout, so a proposer never sees it: for them there is `reason`.
    """
    title = title_claim(evidence)
    return "; ".join(filter(None, [_cause(verdict, line(reason, 400), evidence), title]))


def title_claim(evidence: Mapping[str, Json]) -> str:
    """What came of an earlier variant that was run further beside the child and led then; empty without one."""
    title = part(evidence, "title")
    if not title:
        return ""
    name = line(str(title.get("variant")), 40)
    led = f"{name}, run further, "
    if title.get("taken"):
        return f"{led}is the best now with {number(title.get('mean'))} {interval(title.get('interval'))}"
    return f"{led}led, but {_not_hidden({'holdout': part(title, 'holdout')})}"


def _cause(verdict: Verdict, said: str, evidence: Mapping[str, Json]) -> str:
    if verdict not in (Verdict.DISCARDED, Verdict.ARCHIVED):
        return said
    stages = {name: part(evidence, name) for name in evidence}
    causes = (_not_better(stages), _not_confirmed(stages), _not_accepted(stages), _not_hidden(stages))
    cause = next(filter(None, causes), "")
    if not cause:
        return said
    return cause if verdict is Verdict.DISCARDED else f"{said}; not the best: {cause}"


def _not_better(stages: Mapping[str, Mapping[str, Json]]) -> str:
    screen, simpler = stages.get("screen", {}), stages.get("simplicity", {})
    gain, needed = as_float(screen.get("gain")), as_float(screen.get("needed")) or 0.0
    mine, theirs = as_float(simpler.get("candidate")), as_float(simpler.get("incumbent"))
    if gain is None or (mine is not None and theirs is not None and mine < theirs):
        return ""
    if gain <= 0:
        return f"{number(-gain)} worse than the best so far" if gain else "no better than the best so far"
    return f"gain {number(gain)}, needed {number(needed)}" if gain < needed * (1 - 1e-9) else ""


def _not_confirmed(stages: Mapping[str, Mapping[str, Json]]) -> str:
    again, confirm = stages.get("recheck", {}), stages.get("confirm", {})
    if again.get("passed") is False:
        return f"another run of it gave {number(again.get('score'))}"
    if confirm.get("failed"):
        return f"it failed in {words(confirm['failed'])} of the runs that should confirm it"
    if confirm.get("why"):
        return line(str(confirm["why"]))
    bound, needed = as_float(confirm.get("lower_bound")), as_float(confirm.get("needed"))
    if bound is None or needed is None or bound > needed:
        return ""
    mean = f"mean gain {number(confirm.get('mean_gain'))} on fresh pairs"
    return f"{mean}, but its lower bound {number(bound)} is not above {number(needed)}"


def _not_accepted(stages: Mapping[str, Mapping[str, Json]]) -> str:
    guards, items = stages.get("guards", {}), stages.get("items", {})
    if guards.get("regressed"):
        return f"a guard got worse: {line(words(guards['regressed']))}"
    if items.get("passed") is False:
        return f"the paired test over examples gives p {number(items.get('p'))}, needed {number(items.get('alpha'))}"
    return ""


def _not_hidden(stages: Mapping[str, Mapping[str, Json]]) -> str:
    holdout = stages.get("holdout", {})
    if holdout.get("why"):
        return f"the holdout is {line(str(holdout['why']))}: it is not asked any more"
    if holdout.get("passed") is not False:
        return ""
    seen = stages.get("confirm", {}).get("mean_gain", stages.get("screen", {}).get("gain"))
    said = "the holdout said no"
    return said if as_float(seen) is None else f"gain {number(seen)} on visible, but {said}"


def brief(note: str, limit: int = 300) -> str:
    """A proposer's note on one line; a file that every one of its changes names is named once."""
    parts = note.split("; ")
    file, colon, _ = parts[0].partition(": ")
    shared = f"{file}{colon}"
    if colon and " " not in file and all(one.startswith(shared) for one in parts):
        note = shared + "; ".join(one.removeprefix(shared) for one in parts)
    return line(note, limit)


def evidence_rows(evidence: Mapping[str, Json]) -> list[tuple[str, str]]:
    """(stage, its numbers in words) of everything a decision rests on."""
    return [(line(name), line(words(value), 600)) for name, value in evidence.items()]


def _count(value: Json, noun: str, one: str = "", many: str = "s") -> str:
    return f"{value or 0} {noun}{one if value == 1 else many}"


def _how(before: Mapping[str, Json], after: Mapping[str, Json]) -> str:
    reasons = [str(side[key]) for side in (after, before) for key in ("interval", "why") if side.get(key)]
    return line(reasons[0]) if reasons else ""


def _paired(gain: Mapping[str, Json]) -> str:
    mean = as_float(gain.get("mean"))
    if mean is None:
        return ""
    return f"paired gain {mean:.4g} {interval(gain.get('ci'))}"
