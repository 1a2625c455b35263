"""One prompt, one reply in a talk. Standard library only."""

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
AT_ONCE, MOST_TOKENS, TIMEOUT_S = 8, 128, 120
UNANSWERED = (OSError, http.client.HTTPException, ValueError, LookupError, TypeError)


def filled(text, inputs):
    """`{name}` becomes the input of that name; every other brace is text."""
    return re.sub(r"\{(\w+)\}", lambda found: str(inputs.get(found.group(1), found.group(0))), text)


def complete(prompt):
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "max_tokens": MOST_TOKENS,
    }
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


def answer(prompt, example):
    """(output record, whether the model could be reached)."""
    given = filled(prompt, example)
    try:
        said = complete(given).strip()
    except UNANSWERED as error:
        return {"id": example["id"], "output": "", "error": str(error)[:300]}, False
    trace = [{"module": "reply", "given": given[:600], "said": said[:600]}]
    return {"id": example["id"], "output": said, "trace": trace}, True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=Path("/data"))
    parser.add_argument("--out", type=Path, default=Path("/out"))
    asked = parser.parse_args()
    if "OPENAI_BASE_URL" not in os.environ:
        sys.exit("no model: name one in the policy, as in --set models.default.base_url=http://127.0.0.1:8000/v1")
    prompt = (Path(__file__).parent / "prompts/reply.txt").read_text("utf-8").strip()
    examples = [json.loads(row) for row in (asked.data / "examples.jsonl").read_text("utf-8").splitlines() if row]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda example: answer(prompt, example), examples))
    if not any(reached for _, reached in answers):
        sys.exit(f"the model answered nothing: {answers[0][0]['error']}")
    (asked.out / "outputs.jsonl").write_text("".join(json.dumps(record) + "\n" for record, _ in answers), "utf-8")


if __name__ == "__main__":
    main()
