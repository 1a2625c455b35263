"""Simulated worlds for engine tests."""

from harness.records import Outcome, Split, Status
from harness.streams import stream
from harness.testing.ladder import COUNT, FILE


class TwoFaced:
    """A ladder whose variants say two skills and a noise: the one they show on visible tasks, the other when hidden."""

    def tasks(self, split):
        return [f"visible-{n:02d}" for n in range(COUNT)] if split is Split.VISIBLE else []

    def task(self, tree, split, name, seed):
        shown, hidden, noise = (float(word) for word in tree[FILE].data.decode().split()[:3])
        level = shown if split is Split.VISIBLE else hidden
        if noise:
            level += noise * stream(seed, "luck", name).standard_normal()
        solved = float(level > int(name[-2:]) / COUNT)
        return Outcome(Status.OK, solved, {name: solved})

    def rollout(self, tree, split, seed):
        scores = {}
        for n in range(COUNT):
            scores |= self.task(tree, split, f"{split}-{n:02d}", seed).items
        return Outcome(Status.OK, sum(scores.values()) / COUNT, scores)


class Faults(TwoFaced):
    """The same, said as faults: from 0, the best, to 2."""

    def task(self, tree, split, name, seed):
        faults = 2.0 - 2.0 * super().task(tree, split, name, seed).score
        return Outcome(Status.OK, faults, {name: faults})


SUBJECT = """\
[subject]
name = "two-faced"
editable = ["skill.txt"]
[eval]
mode = "simulation"
world = "support.worlds:TwoFaced"
run = ["simulated"]
metric = "solved"
direction = "max"
range = [0.0, 1.0]
[splits]
holdout = "hidden"
[policy]
use = "guarded"
agent.name = "support.agents:Versions"
agent.config.path = "skill.txt"
archive.mode = "keep_all"
select.rule = "greedy"
schedule.workers = 1
stages.doubt = 0.0
[[policy.stages.plan]]
tasks = 19
threshold = 1.0
[[policy.stages.plan]]
"""


def write_two_faced(folder, *versions, root="0.3 0.3 0"):
    """The subject, whose ticket n proposes the n-th of `versions`; all but a perfect one fail the first stage."""
    (folder / "hidden").mkdir(parents=True)
    (folder / "hidden" / "note.txt").write_text("the hidden tasks are made up too\n")
    (folder / FILE).write_text(f"{root}\n")
    lines = [f"{text} {n}" for n, text in enumerate(versions, start=1)]
    (folder / "strop.toml").write_text(
        SUBJECT.replace("config.path = ", f"config.versions = {lines!r}\nagent.config.path = ")
    )
    return folder
