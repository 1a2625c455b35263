"""Two modules, two prompts: one chooses a function, the other extracts its arguments. Standard library only."""

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
AT_ONCE, MOST_TOKENS, TIMEOUT_S = 8, 256, 120
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


def chosen(said, names):
    """The function named last in a reply, of those there are."""
    found = [(said.rfind(name), name) for name in names if name in said]
    return max(found)[1] if found else ""


def arguments(said):
    """The last JSON object in a reply that is one."""
    for found in reversed(re.findall(r"\{[^{}]*\}", said)):
        try:
            value = json.loads(found)
        except ValueError:
            continue
        if isinstance(value, dict):
            return value
    return {}


def answer(choose, extract, example):
    """(output record, whether the model could be reached)."""
    names = [name.strip() for name in re.findall(r"(\w+)\(", example["functions"])]
    try:
        first = filled(choose, example)
        said = complete(first)
        function = chosen(said, names)
        second = filled(extract, {**example, "function": function})
        told = complete(second)
    except UNANSWERED as error:
        return {"id": example["id"], "output": {}, "error": str(error)[:300]}, False
    trace = [
        {"module": "choose", "given": first[:600], "said": said[:600]},
        {"module": "extract", "given": second[:600], "said": told[:600]},
    ]
    output = {"function": function, "arguments": arguments(told)}
    return {"id": example["id"], "output": output, "trace": trace}, True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=Path("/data"))
    parser.add_argument("--out", type=Path, default=Path("/out"))
    asked = parser.parse_args()
    if "OPENAI_BASE_URL" not in os.environ:
        sys.exit("no model: name one in the policy, as in --set models.default.base_url=http://127.0.0.1:8000/v1")
    here = Path(__file__).parent / "prompts"
    choose, extract = ((here / f"{name}.txt").read_text("utf-8").strip() for name in ("choose", "extract"))
    examples = [json.loads(row) for row in (asked.data / "examples.jsonl").read_text("utf-8").splitlines() if row]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda example: answer(choose, extract, example), examples))
    if not any(reached for _, reached in answers):
        sys.exit(f"the model answered nothing: {answers[0][0]['error']}")
    (asked.out / "outputs.jsonl").write_text("".join(json.dumps(record) + "\n" for record, _ in answers), "utf-8")


if __name__ == "__main__":
    main()
