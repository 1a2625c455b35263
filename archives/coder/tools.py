"""What a reply can do: write, change and read files below a folder, run a command, be done."""

import re
import subprocess

CALL = re.compile(
    r'<write path="(?P<write>[^"]+)">\n?(?P<text>.*?)</write>'
    r'|<replace path="(?P<change>[^"]+)">\s*<old>(?P<old>.*?)</old>\s*<new>(?P<new>.*?)</new>\s*</replace>'
    r'|<read path="(?P<read>[^"]+)"\s*/>'
    r"|<run>(?P<run>.*?)</run>"
    r"|(?P<done><done\s*/>)",
    re.DOTALL,
)
FENCE = re.compile(r"^\s*```\w*\n(.*?)\n?```\s*$", re.DOTALL)
SHOWN = 2000
RUN_S = 20


def act(reply, folder):
    """Do everything a reply asks for, in order: what was seen, and whether it is done."""
    seen, done = [], False
    for call in CALL.finditer(reply):
        kind = call.lastgroup if call["done"] else next(k for k in ("write", "change", "read", "run") if call[k])
        if kind == "done":
            done = True
            continue
        try:
            seen.append(DO[kind](call, folder))
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            seen.append(f"tool error: {type(error).__name__}: {error}")
    return "\n".join(seen), done


def inside(folder, path):
    """The path, if it lies below the folder."""
    place = (folder / path).resolve()
    if not place.is_relative_to(folder.resolve()):
        raise ValueError(f"{path} is not in the folder")
    return place


def write(call, folder):
    place = inside(folder, call["write"])
    place.parent.mkdir(parents=True, exist_ok=True)
    fenced = FENCE.match(call["text"])
    text = fenced[1] if fenced else call["text"]
    place.write_text(text if text.endswith("\n") else text + "\n")
    return f"wrote {call['write']}"


def change(call, folder):
    place = inside(folder, call["change"])
    text = place.read_text()
    if text.count(call["old"]) != 1:
        raise ValueError(f"the old text is {text.count(call['old'])} times in {call['change']}, it must be there once")
    place.write_text(text.replace(call["old"], call["new"]))
    return f"changed {call['change']}"


def read(call, folder):
    return f"{call['read']}:\n{inside(folder, call['read']).read_text(errors='replace')[:SHOWN]}"


def run(call, folder):
    done = subprocess.run(
        ["sh", "-c", call["run"]], cwd=folder, capture_output=True, text=True, timeout=RUN_S, check=False
    )
    return f"exit code {done.returncode}\n{(done.stdout + done.stderr)[-SHOWN:]}"


DO = {"write": write, "change": change, "read": read, "run": run}
