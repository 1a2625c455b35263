import json
from pathlib import Path

RIGHT = {"ERROR": 2, "WARN": 1, "INFO": 2}
try:
    found = json.loads(Path("/app/counts.json").read_text())
    share = sum(found.get(level) == count for level, count in RIGHT.items()) / len(RIGHT)
except (OSError, ValueError, AttributeError):
    share = 0.0
Path("/logs/verifier/reward.json").write_text(json.dumps({"reward": share}))
