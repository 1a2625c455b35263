"""A tiny subject for engine tests: one number to tune, one hundredth of a second a run."""

from pathlib import Path

TRAIN = """\
from pathlib import Path

VALUE = 20

ids = Path("/data/ids.txt").read_text().split()
Path("/out/predictions.csv").write_text("".join(f"{id},{VALUE}\\n" for id in ids))
"""

SCORE = """\
import json
from pathlib import Path

labels = dict(row.split(",") for row in Path("/labels/labels.csv").read_text().split())
said = dict(row.split(",") for row in Path("/out/predictions.csv").read_text().split())
items = {id: min(1.0, abs(float(said[id]) - float(label)) / 100) for id, label in labels.items()}
Path("/result/result.json").write_text(json.dumps({"error": sum(items.values()) / len(items), "items": items}))
"""

NOISY_TRAIN = TRAIN.replace(
    "ids =",
    "import os, random\nrandom.seed(int(os.environ['STROP_SEED']))\nVALUE += random.uniform(-NOISE, NOISE)\nids =",
).replace("VALUE = 20", "VALUE = 20\nNOISE = 2.0")

STROP = """\
[subject]
name = "toy"
editable = ["train.py"]
[eval]
mode = "split"
run = ["python", "train.py"]
score = ["python", "score.py"]
metric = "error"
direction = "min"
range = [0.0, 1.0]
timeout_s = 10
[splits]
visible = "data/visible"
holdout = "data/holdout"
vault = "data/vault"
[policy]
use = "guarded"
"""


def make_toy(folder: Path, *, train: str = TRAIN, score: str = SCORE, strop: str = STROP, targets=None) -> Path:
    """Write the subject below `folder`; `targets` sets each split's best VALUE."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(train)
    (folder / "score.py").write_text(score)
    (folder / "strop.toml").write_text(strop)
    (folder / "lib.py").write_text("ANSWER = 42\n")
    for split in ("visible", "holdout", "vault"):
        target = (targets or {}).get(split, 70)
        ids = [f"{split[0]}{n}" for n in range(8)]
        for part in ("inputs", "labels"):
            (folder / "data" / split / part).mkdir(parents=True, exist_ok=True)
        (folder / "data" / split / "inputs" / "ids.txt").write_text("\n".join(ids))
        rows = "\n".join(f"{id},{target + n % 3 - 1}" for n, id in enumerate(ids))
        (folder / "data" / split / "labels" / "labels.csv").write_text(rows)
    return folder
