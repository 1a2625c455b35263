"""In a box: call the user's function on the tree in /work. `call.py [--prove] FUNCTION`; stdlib only.

With --prove it is looked for and not called.

The function gets one dictionary and edits files in place, or returns {path: text} (None removes a file), or both. It
may be a coroutine function.
"""

import asyncio
import inspect
import json
import os
import sys

TMP = os.environ.get("TMPDIR", "/tmp")


def main():
    sys.path.insert(0, TMP + "/agent")
    sys.path.insert(1, os.getcwd())
    import user_agent

    function = getattr(user_agent, sys.argv[-1], None)
    if not callable(function):
        sys.exit(f"there is no function {sys.argv[-1]} in it")
    if sys.argv[1] == "--prove":
        return
    with open(TMP + "/ask.json", encoding="utf-8") as file:
        ask = json.load(file)
    ask["base_url"] = os.environ.get("OPENAI_BASE_URL", "")
    made = function(ask)
    if inspect.isawaitable(made):
        made = asyncio.run(_awaited(made))
    if made is not None and not isinstance(made, dict):
        told = f"{sys.argv[-1]} returned {type(made).__name__}"
        sys.exit(f"{told}; it may return {{path: text}}, or edit files and return None")
    for path, text in (made or {}).items():
        if text is None:
            os.remove(path)
            continue
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())


async def _awaited(made):
    return await made


main()
