"""False keeps of 100 candidates without any effect on a noisy eval, for greedy and for the gate; and the gate's power.

    python benchmarks/false_keeps.py [--repetitions 50] [--noise 0.05]

Pure arithmetic over the real gate: scores are drawn, no box is opened. One repetition is one run of 100 null candidates
at the shipped policy (alpha .05, K 300, 4 pairs); the target is at most 0.05 false keeps a run. Power is asked at the
gain that `strop check` names, over 2,000 candidates that have it.
"""

from __future__ import annotations

import argparse
import math

from harness.policy.schema import GatePolicy
from harness.records import Outcome, Status
from harness.research.evidence.gate import Gate
from harness.research.preflight.power import least_gain
from harness.streams import stream

CANDIDATES = 100
MEAN = 0.5


def ok(score: float) -> Outcome:
    return Outcome(Status.OK, float(score))


def greedy(noise: float, repetition: int) -> int:
    """Keeps of strict `<` on one run each, the record carried along."""
    rng = stream(repetition, "greedy")
    best, kept = rng.normal(MEAN, noise), 0
    for _ in range(CANDIDATES):
        score = rng.normal(MEAN, noise)
        if score < best:
            best, kept = score, kept + 1
    return kept


def gated(
    gate: Gate, noise: float, repetition: int, gain: float = 0.0, candidates: int = CANDIDATES
) -> tuple[int, int]:
    """(keeps, runs of the eval) of candidates whose true score is `gain` better, each against the same incumbent."""
    rng = stream(repetition, "gate", int(gain * 1e9))
    reference = math.fsum(rng.normal(MEAN, noise) for _ in range(4)) / 4
    kept, spent, comparisons = 0, 0, 0
    for _ in range(candidates):
        spent += 1
        if not gate.screen(rng.normal(MEAN - gain, noise), reference).passed:
            continue
        comparisons += 1
        pairs = [(ok(rng.normal(MEAN - gain, noise)), ok(rng.normal(MEAN, noise))) for _ in range(gate.policy.pairs)]
        spent += 2 * gate.policy.pairs
        kept += gate.confirm(pairs, min(comparisons, gate.policy.candidates)).passed
    return kept, spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=50)
    parser.add_argument("--noise", type=float, default=0.05)
    args = parser.parse_args()
    gate = Gate(GatePolicy(), "min", deterministic=False)
    by_luck = [greedy(args.noise, n) for n in range(args.repetitions)]
    ruled = [gated(gate, args.noise, n) for n in range(args.repetitions)]
    gain = least_gain(args.noise, gate.alpha(1), gate.policy.pairs)
    kept, _spent = gated(gate, args.noise, 1_000, gain, 2_000)
    print(f"{args.repetitions} runs of {CANDIDATES} null candidates, noise {args.noise}")
    print(f"greedy  {sum(by_luck) / len(by_luck):6.2f} false keeps a run, 1.0 runs of the eval each")
    runs = sum(one[1] for one in ruled) / (CANDIDATES * len(ruled))
    print(
        f"gate    {sum(one[0] for one in ruled) / len(ruled):6.2f} false keeps a run, {runs:.1f} runs of the eval each"
    )
    print(f"power   {kept / 2_000:6.2f} at a gain of {gain:.4g}, {gain / args.noise:.1f} times the noise")


if __name__ == "__main__":
    main()
