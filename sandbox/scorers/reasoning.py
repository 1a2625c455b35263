"""Solved when reasoning-gym gives /out/answer.txt at least the threshold; a wrong answer may score .01 there."""

import json
from pathlib import Path

import reasoning_gym
import verdict

about = json.loads(Path("/labels/entry.json").read_text())
tasks = reasoning_gym.create_dataset(about["generator"], size=about["size"], seed=about["seed"])
answer = Path("/out/answer.txt")
said = answer.read_text(errors="replace").strip() if answer.is_file() else None
reward = tasks.score_answer(said, tasks[about["index"]]) if said else 0.0
verdict.write(float(reward >= about["threshold"]))
