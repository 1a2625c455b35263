r"""Do agents that people already have work unchanged in a box? Each is run once on a small tree, in an embedded box
and, where there is an engine, a Docker one, through the gateway, against a scripted model behind a real HTTP server.

    python benchmarks/agents.py [--boxes embedded,docker] mini-swe-agent=VENV aider=VENV \
        opencode=NODE_FOLDER codex=NODE_FOLDER claude=NODE_FOLDER gemini=NODE_FOLDER \
        opencode-acp=NODE_FOLDER gemini-acp=NODE_FOLDER

VENV is a virtual environment that has the agent, NODE_FOLDER a folder with node_modules in it. Told: whether the edit
came back, the calls, the tokens as the gateway metered them and as the server counted them.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import anyio
import numpy as np

from harness.agent.base import Ask
from harness.agent.bench import Bench
from harness.agent.command import AcpAgent, CommandAgent
from harness.box.base import BoxSpec
from harness.box.choose import choose
from harness.errors import StropError
from harness.model.base import MemoryJournal
from harness.model.gateway import open_gateway
from harness.model.server import serve
from harness.policy.schema import BudgetPolicy, ModelPolicy
from harness.records import Variant, Verdict
from harness.repo.door import admit
from harness.testing.scripted_model import ScriptedModel
from harness.tree import File, Tree

BEFORE, AFTER = "RATE = 0.1\nSTEPS = 10\n", "RATE = 0.2\nSTEPS = 10\n"
EDITED = "edit came back"
TREE = Tree({"train.py": File(BEFORE.encode()), "score.py": File(b"X = 1\n")})


def tool(name, **arguments):
    return [{"id": "call_1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}]


def turns(body):
    return sum(message.get("role") == "tool" for message in body.get("messages", []))


def mini(body):
    if turns(body) == 0 and "bash" in json.dumps(body.get("tools", "")):
        return tool("bash", command="sed -i 's/RATE = 0.1/RATE = 0.2/' train.py")
    return tool("bash", command="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")


def aider(body):
    return f"train.py\n```\n{AFTER}```\n"


def opencode(body):
    names = [one["function"]["name"] for one in body.get("tools", [])]
    if not names:
        return "Raise the rate"
    if turns(body):
        return "Done."
    if "edit" in names:
        path = "/work/train.py"
        if turns(body) == 0 and "read" in names and not any("RATE" in str(m) for m in body["messages"][1:]):
            return tool("write", filePath=path, content=AFTER) if "write" in names else tool("read", filePath=path)
    return tool("bash", command="sed -i 's/RATE = 0.1/RATE = 0.2/' train.py", description="edit")


def offered(body):
    """The names of the tools a request offers, in any dialect."""
    for one in body.get("tools") or ():
        for tool in one.get("functionDeclarations") or (one.get("function") or one,):
            yield tool.get("name", "")


def shell(body):
    """One edit through whatever runs a command, then done: for codex, claude and gemini."""
    names = set(offered(body))
    said = json.dumps([body.get("messages"), body.get("input"), body.get("contents")])
    if any(key in said for key in ('"function_call_output"', '"tool_result"', '"functionResponse"')):
        return "Done."
    edit = "sed -i 's/RATE = 0.1/RATE = 0.2/' train.py"
    if "exec_command" in names:
        return tool("exec_command", cmd=edit)
    if "shell_command" in names:
        return tool("shell_command", command=edit)
    if "Bash" in names:
        return tool("Bash", command=edit, description="Raise the rate")
    if "run_shell_command" in names:
        return tool("run_shell_command", command=edit, description="Raise the rate")
    return "Raise the rate"


SCRIPTS = {
    "mini-swe-agent": mini,
    "aider": aider,
    "opencode": opencode,
    "codex": shell,
    "claude": shell,
    "gemini": shell,
    "opencode-acp": opencode,
    "gemini-acp": shell,
}


def agent_of(name, folder):
    """The `command` agent with a preset, or the `acp` one."""
    preset, acp, _ = name.partition("-acp")
    kind = AcpAgent if acp else CommandAgent
    return kind({"preset": preset, "mounts": [str(folder)], "deadline_s": 300})


@dataclass
class Ran:
    """One agent in one box: `told` is EDITED, or what went wrong instead."""

    told: str
    calls: int
    metered: tuple[int, int]
    served: tuple[int, int]
    estimated: bool

    @property
    def good(self):
        return self.told == EDITED and self.metered == self.served and not self.estimated


async def run(name, folder, back_end):
    ask = Ask(
        ticket=1,
        parent=Variant("v0", 0, TREE.digest, (), Verdict.KEPT, 0.5),
        tree=TREE,
        history=(),
        metric="error",
        direction="min",
        is_editable=lambda path: path == "train.py",
        rng=np.random.default_rng(0),
    )
    boxes = choose(back_end)
    await boxes.prepare()
    agent = agent_of(name, folder)
    async with ScriptedModel(SCRIPTS[name]) as model:
        models = {"scripted": ModelPolicy(base_url=model.url)}
        async with open_gateway(models, BudgetPolicy(), MemoryJournal()) as gateway, serve(gateway) as server:
            agent.equip(Bench(boxes, BoxSpec("agents"), server))
            try:
                proposal = await agent.propose(ask)
                child = admit(proposal.tree)
                edited = child["train.py"].data.decode() == AFTER and set(child) == set(TREE)
                told = EDITED if edited else f"odd tree: {sorted(child)} {child['train.py'].data!r}"
            except StropError as error:
                told = str(error)
            used, served = gateway.allowance.used, model.served
    metered = used.tokens_in, used.tokens_out
    return Ran(told, used.requests, metered, (served.tokens_in, served.tokens_out), used.estimated)


async def main(boxes, agents):
    good = True
    for name, folder in agents:
        for back_end in boxes:
            started = time.perf_counter()
            ran = await run(name, folder, back_end)
            good = good and ran.good
            agree = "equal" if ran.metered == ran.served and not ran.estimated else "NOT EQUAL"
            tokens = (
                f"tokens {ran.metered[0]} in {ran.metered[1]} out, server counts {ran.served[0]} and {ran.served[1]}"
            )
            took = time.perf_counter() - started
            print(f"{name:15} {back_end:9} {ran.told}; {ran.calls} calls, {tokens}: {agree}; {took:.1f} s", flush=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boxes", default="embedded")
    parser.add_argument("agents", nargs="+", help="NAME=FOLDER")
    given = parser.parse_args()
    pairs = [one.partition("=") for one in given.agents]
    anyio.run(main, given.boxes.split(","), [(name, Path(folder).resolve()) for name, _, folder in pairs])
