"""The red team on digits (split), on an inline copy of it and on a pytest subject: the tables of docs/redteam.md.

python benchmarks/redteam.py [--only split inline pytest] [--unguarded] [--box embedded] > tables.md
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.cheats import make_suite

from harness.research.redteam.campaign import Campaign, redteam
from harness.research.redteam.catalogue import attacks

ROOT = Path(__file__).parent.parent

EVALUATE = """\
import json
import sys
from pathlib import Path

import score
import train

sys.argv = ["train.py", "--data", "/data/inputs", "--out", "/out"]
train.main()
truth = score.parse(Path("/data/labels/labels.csv").read_bytes())
result = score.score(truth, score.parse(score.read_plain("/out")))
Path("/result/result.json").write_text(json.dumps(result))
"""


def inline_digits(folder: Path) -> Path:
    """Digits with its eval beside the candidate, as autoresearch scripts have it."""
    shutil.copytree(ROOT / "archives" / "digits", folder)
    (folder / "evaluate.py").write_text(EVALUATE)
    rows = [
        row
        for row in (folder / "strop.toml").read_text().splitlines()
        if not row.startswith(("mode =", "run =", "score ="))
    ]
    at = rows.index("[eval]")
    rows[at + 1 : at + 1] = ['mode = "inline"', 'run = ["python", "evaluate.py"]']
    (folder / "strop.toml").write_text("\n".join(rows) + "\n")
    return folder


def table(found: Campaign) -> str:
    """One campaign as Markdown."""
    counts = Counter(finding.ending for finding in found.findings)
    rows = [
        f"{len(found.findings)} attacks: " + ", ".join(f"{count} {ending}" for ending, count in counts.items()) + ".",
        "",
        "| attack | kind | ending | by | what was seen |" + (" unguarded |" if found.taken else ""),
        "|---|---|---|---|---|" + ("---|" if found.taken else ""),
    ]
    for one in found.findings:
        ending = f"**{one.ending}**" if one.ending == "got through" else one.ending
        detail = one.detail.replace("|", "\\|").replace("<", "&lt;").replace("`", "'")[:100]
        row = f"| {one.attack} | {one.kind} | {ending} | {one.control} | {detail} |"
        if found.taken:
            taken = found.taken[one.attack]
            row += f" {taken.reported:.4g}{', kept' if taken.kept else ''} |"
        rows.append(row)
    return "\n".join(rows)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=["split", "inline", "pytest"])
    parser.add_argument("--unguarded", action="store_true")
    parser.add_argument("--box", default="embedded", choices=["embedded", "docker"])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        subjects = {
            "split": ROOT / "archives" / "digits",
            "inline": inline_digits(place / "inline"),
            "pytest": make_suite(place / "suite"),
        }
        for name in args.only:
            found = await redteam(
                subjects[name], attacks(), unguarded=args.unguarded, overrides={"box.backend": args.box}
            )
            print(f"## {name}\n\n{table(found)}\n", flush=True)


if __name__ == "__main__":
    anyio.run(main)
