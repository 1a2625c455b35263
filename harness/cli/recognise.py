"""What `strop init` can tell from a folder by looking, with the reason for each thing it tells."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

AUTORESEARCH = ("program.md", "train.py", "prepare.py")
_PRINTS_VAL_BPB = re.compile(rb"val_bpb\s*[:=]")
_READ_LIMIT = 4_000_000


@dataclass(frozen=True, slots=True)
class Found:
    """One value for strop.toml, and why it is believed."""

    value: object
    why: str


def recognise(folder: Path) -> dict[str, Found]:
    """Values for an autoresearch folder (program.md, train.py, prepare.py); empty for any other folder."""
    if not all((folder / name).is_file() for name in AUTORESEARCH):
        return {}
    found = {
        "mode": Found("inline", "train.py imports prepare.py, which holds the evaluation"),
        "editable": Found(["train.py"], "program.md's rule: only train.py is edited"),
        "run": Found(["python", "train.py"], "program.md's command, without uv: the box has its own python"),
        "timeout_s": Found(600.0, "program.md's limit of ten minutes for an experiment of five"),
    }
    with (folder / "train.py").open("rb") as script:
        source = script.read(_READ_LIMIT)
    if _PRINTS_VAL_BPB.search(source):
        found |= {
            "metric": Found("val_bpb", "train.py prints it"),
            "direction": Found("min", "bits per byte: lower is better"),
            "result": Found("stdout", "train.py prints it and writes no result file"),
        }
    return found
