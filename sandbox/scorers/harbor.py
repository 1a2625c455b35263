"""Harbor: run the task's verifier on what the agent left, in a fresh box, and read the reward that it writes.

The verifier finds the agent's work in its current folder (also for the path /app), its tests under /tests and writes
/logs/verifier/reward.txt or reward.json; those three paths are translated to this box's own.
"""

import json
import math
import re
import secrets
from pathlib import Path

import verdict

DEADLINE_S = 600
VERIFIERS = ("tests/test.sh", "tests/run-tests.sh", "run-tests.sh", "tests/test.py")


def reward(folder):
    """The number in reward.txt, or `reward` in reward.json; nothing else counts."""
    try:
        if (folder / "reward.json").is_file():
            table = json.loads((folder / "reward.json").read_text())
            value = float(table["reward"] if isinstance(table, dict) else table)
        else:
            value = float((folder / "reward.txt").read_text())
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0
    return min(1.0, max(0.0, value)) if math.isfinite(value) else 0.0


def main():
    verdict.adopt()
    home = Path("/tmp") / secrets.token_hex(8)
    work, tests, logs = home / "app", home / "tests", home / "verifier"
    verdict.copy("/out", work)
    verdict.copy("/labels", home / "labels")
    (home / "labels" / "tests").rename(tests)
    logs.mkdir()
    script = next(name for name in VERIFIERS if (Path("/labels") / name).is_file())
    path = tests / script.removeprefix("tests/") if script.startswith("tests/") else home / "labels" / script
    for file in {*tests.rglob("*"), path}:
        if file.suffix in (".sh", ".py", ".toml", ".txt", ".json"):
            text = file.read_text(errors="surrogateescape")
            for old, new in (("/logs/verifier", logs), ("/tests", tests), ("/app", work)):
                text = re.sub(rf"(?<![\w./-]){old}(?![\w.-])", str(new), text)
            file.write_text(text, errors="surrogateescape")
    argv = ["python3", str(path)] if path.suffix == ".py" else ["sh", str(path)]
    verdict.run(argv, work, {"TEST_DIR": str(tests), "LOGS_DIR": str(logs)}, DEADLINE_S)
    return reward(logs)


if __name__ == "__main__":
    verdict.write(main())
