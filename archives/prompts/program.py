"""The program whose prompts are optimized: one chat completion a question, any OpenAI-compatible model.

Only the standard library, so that a box starts it quickly. It reads /data/examples.jsonl and the texts below prompts/,
and writes /out/outputs.jsonl. The run's gateway offers the model at OPENAI_BASE_URL.
"""

import argparse
import http.client
import json
import os
import re
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MODEL = os.environ.get("STROP_MODEL", "default")
AT_ONCE = 8
MOST_TOKENS = 256
TIMEOUT_S = 120
UNANSWERED = (OSError, http.client.HTTPException, ValueError, LookupError, TypeError)


def filled(text, inputs):
    """`{name}` becomes the input of that name; every other brace is text."""
    return re.sub(r"\{(\w+)\}", lambda found: str(inputs.get(found.group(1), found.group(0))), text)


def messages(solve, demos, example):
    said = []
    for demo in demos:
        said.append({"role": "user", "content": filled(solve, demo["inputs"])})
        said.append({"role": "assistant", "content": str(demo["output"])})
    return [*said, {"role": "user", "content": filled(solve, example)}]


def complete(chat):
    body = {"model": MODEL, "messages": chat, "temperature": 0, "max_tokens": MOST_TOKENS}
    asked = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"].rstrip("/") + "/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}"},
    )
    try:
        with urllib.request.urlopen(asked, timeout=TIMEOUT_S) as reply:
            return json.load(reply)["choices"][0]["message"]["content"] or ""
    except urllib.error.HTTPError as error:
        raise ValueError(f"HTTP {error.code}: {error.read(300).decode('utf-8', 'replace')}") from None


def last_integer(text):
    """The answer in a reply: its last integer, thousands commas dropped."""
    found = re.findall(r"-?\d[\d,]*", text)
    return found[-1].replace(",", "") if found else ""


def answer(solve, demos, example):
    """(output record, whether the model could be reached)."""
    chat = messages(solve, demos, example)
    try:
        said = complete(chat)
    except UNANSWERED as error:
        return {"id": example["id"], "output": "", "error": str(error)[:300]}, False
    trace = [{"module": "", "given": chat[-1]["content"][:600], "said": said[:600]}]
    return {"id": example["id"], "output": last_integer(said), "trace": trace}, True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=Path("/data"))
    parser.add_argument("--out", type=Path, default=Path("/out"))
    asked = parser.parse_args()
    if "OPENAI_BASE_URL" not in os.environ:
        sys.exit("no model: name one in the policy, as in --set models.default.base_url=http://127.0.0.1:8000/v1")
    here = Path(__file__).parent
    solve = (here / "prompts/solve.txt").read_text("utf-8").strip()
    demos = json.loads((here / "prompts/demos.json").read_text("utf-8"))
    examples = [json.loads(row) for row in (asked.data / "examples.jsonl").read_text("utf-8").splitlines() if row]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda example: answer(solve, demos, example), examples))
    if not any(reached for _, reached in answers):
        sys.exit(f"the model answered nothing: {answers[0][0]['error']}")
    (asked.out / "outputs.jsonl").write_text("".join(json.dumps(record) + "\n" for record, _ in answers), "utf-8")


if __name__ == "__main__":
    main()
