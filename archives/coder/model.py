"""One call of any OpenAI-compatible model; the address and the key come from the environment."""

import json
import os
import time
import urllib.error
import urllib.request

MODEL = os.environ.get("STROP_MODEL", "main")
MAX_TOKENS = 1024
TEMPERATURE = 0.2
TRIES = 3
TIMEOUT_S = 120


def ask(messages, temperature=TEMPERATURE):
    """The reply to a list of {"role", "content"} messages."""
    base = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8123/v1").rstrip("/")
    body = {"model": MODEL, "messages": messages, "max_tokens": MAX_TOKENS, "temperature": temperature}
    request = urllib.request.Request(
        f"{base}/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}"},
    )
    for attempt in range(1, TRIES + 1):
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                return json.load(response)["choices"][0]["message"]["content"] or ""
        except urllib.error.HTTPError as error:
            said = error.read()[:300].decode(errors="replace")
            if error.code < 500 and error.code != 429:
                raise RuntimeError(f"the model refused: {error.code} {said}") from None
            problem = f"{error.code} {said}"
        except OSError as error:
            problem = str(error)
        time.sleep(attempt)
    raise RuntimeError(f"no reply from the model: {problem}")
