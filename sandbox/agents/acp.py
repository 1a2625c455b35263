"""In a box: one prompt to an agent that speaks the Agent Client Protocol on its standard streams. Stdlib only.

`acp.py PROMPT_FILE PROGRAM ARGS...`. Requests for permission are granted: the box is the fence. Files are read and
written for the agent below the current folder.
"""

import json
import os
import shutil
import subprocess
import sys

VERSION = 1


class Agent:
    """JSON-RPC, one message a line, both ways."""

    def __init__(self, argv):
        if argv[0] == "python" and shutil.which("python") is None:
            argv = [sys.executable, *argv[1:]]  # Debian has python3 alone
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.number = 0

    def ask(self, method, params):
        """Send a request and serve the agent's own until the answer is there."""
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        for row in self.process.stdout:
            try:
                message = json.loads(row)
            except ValueError:
                continue
            if not isinstance(message, dict):
                continue
            if "method" in message:
                self.serve(message)
            elif message.get("id") == self.number:
                if "error" in message:
                    sys.exit(f"acp: {method}: {json.dumps(message['error'])[:500]}")
                return message.get("result") or {}
        sys.exit(f"acp: the agent ended during {method}")

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def serve(self, message):
        """Answer one request of the agent's; notifications are only told."""
        method, params = message["method"], message.get("params") or {}
        if "id" not in message:
            self.tell(params)
            return
        try:
            result = HANDLERS[method](params)
        except KeyError:
            self.send({"id": message["id"], "error": {"code": -32601, "message": f"no {method} here"}})
        except OSError as error:
            self.send({"id": message["id"], "error": {"code": -32603, "message": str(error)}})
        else:
            self.send({"id": message["id"], "result": result})

    @staticmethod
    def tell(params):
        update = params.get("update") or {}
        content = update.get("content")
        if update.get("sessionUpdate") == "agent_message_chunk" and isinstance(content, dict):
            sys.stdout.write(str(content.get("text", "")))


def permit(params):
    """The first option that allows."""
    options = params.get("options") or []
    for kind in ("allow_always", "allow_once"):
        for option in options:
            if option.get("kind") == kind:
                return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
    return {"outcome": {"outcome": "cancelled"}}


def read_file(params):
    with open(params["path"], encoding="utf-8", errors="replace") as file:
        rows = file.read().splitlines(keepends=True)
    first = max(0, int(params.get("line") or 1) - 1)
    limit = params.get("limit")
    return {"content": "".join(rows[first : None if limit is None else first + int(limit)])}


def write_file(params):
    os.makedirs(os.path.dirname(params["path"]) or ".", exist_ok=True)
    with open(params["path"], "w", encoding="utf-8") as file:
        file.write(params["content"])


HANDLERS = {
    "session/request_permission": permit,
    "fs/read_text_file": read_file,
    "fs/write_text_file": write_file,
}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        prompt = file.read()
    agent = Agent(sys.argv[2:])
    files = {"readTextFile": True, "writeTextFile": True}
    agent.ask("initialize", {"protocolVersion": VERSION, "clientCapabilities": {"fs": files, "terminal": False}})
    session = agent.ask("session/new", {"cwd": os.getcwd(), "mcpServers": []})
    said = {"sessionId": session.get("sessionId"), "prompt": [{"type": "text", "text": prompt}]}
    ended = agent.ask("session/prompt", said)
    print(f"\nacp: {ended.get('stopReason')}")
    agent.process.kill()


main()
