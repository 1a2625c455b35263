"""Other people's agents, in real boxes: a command line, a Python function, an ACP agent."""

import sys
from contextlib import asynccontextmanager

import pytest
from agent.asks import ask_of, tree_of
from model.gateways import opened

from harness.agent.bench import Bench
from harness.agent.command import AcpAgent, CommandAgent, PythonAgent
from harness.agent.presets import PRESETS
from harness.box.base import BoxSpec
from harness.box.choose import choose
from harness.errors import AgentError, InputError
from harness.repo.door import admit, judge
from harness.testing.scripted_model import ScriptedModel

TREE = tree_of(train="RATE = 0.1\n", locked="KEY = 1\n")


def ask():
    return ask_of(TREE, is_editable=lambda path: path == "train.py")


def child_of(proposal):
    return {path: file.data.decode() for path, file in admit(proposal.tree).items()}


@asynccontextmanager
async def benched(script="RATE = 0.5", box="embedded"):
    async with ScriptedModel(script) as model, opened(model) as server:
        yield Bench(choose(box), BoxSpec("agents"), server), model


def command(*argv, **config):
    return CommandAgent({"argv": list(argv), **config})


async def made(agent, bench):
    agent.equip(bench)
    return await agent.propose(ask())


async def test_a_command_edits_a_copy_of_the_tree():
    async with benched() as (bench, _):
        proposal = await made(command("sh", "-c", "echo 'RATE = 0.2' > train.py; echo told; exit 3"), bench)
    assert child_of(proposal) == {"train.py": "RATE = 0.2\n", "locked.py": "KEY = 1\n"}
    assert proposal.note == "sh edits train.py, exit 3"
    assert proposal.memo == {"agent": "sh", "exit": 3, "lines": "train.py:\nRATE = 0.1  ->  RATE = 0.2"}


async def test_it_finds_a_repository_the_prompt_and_the_gateway_and_leaves_no_litter():
    script = """
    git diff --quiet HEAD && grep -q "Change only these files: train.py" "$STROP_PROMPT_FILE" || exit 1
    mkdir -p __pycache__ .aider.tags && touch __pycache__/x.pyc .aider.tags/y .aider.chat.history.md
    python - <<'PY' > train.py
import json, os, urllib.request
body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()
url = os.environ["OPENAI_API_BASE"] + "/chat/completions"
print(json.load(urllib.request.urlopen(urllib.request.Request(url, body)))["choices"][0]["message"]["content"])
PY
    """
    async with benched() as (bench, model):
        proposal = await made(command("sh", "-c", script), bench)
    assert child_of(proposal) == {"train.py": "RATE = 0.5\n", "locked.py": "KEY = 1\n"}
    used = bench.server.gateway.allowance.by_role["proposer"]
    assert (used.requests, used.tokens_in) == (1, model.served.tokens_in)


async def test_a_change_where_nobody_may_write_reaches_the_door():
    async with benched() as (bench, _):
        proposal = await made(command("sh", "-c", "echo 'KEY = 2' > locked.py; echo x > new.txt; ln -s / link"), bench)
    refused = admit(proposal.tree)
    assert any("symlink" in str(one) for one in refused.violations)
    plain = admit([entry for entry in proposal.tree if entry.kind == "file"])
    assert [one.path for one in judge(TREE, plain, ask().is_editable)] == ["locked.py", "new.txt"]


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("sh", "-c", "echo oops >&2; exit 7"), "changed nothing: exit 7, last words: oops"),
        (("no-such-program",), "exit 127"),
        (("python", "-c", "def f():\n    raise ValueError('no idea')\nf()"), "last words: ValueError: no idea$"),
        (("sh", "-c", "echo said; echo complained >&2; exit 1"), "last words: complained; and said$"),
        (("sh", "-c", "sleep 60"), "killed at its deadline of 1 s"),
    ],
)
async def test_an_agent_that_changes_nothing_says_why(argv, reason):
    async with benched() as (bench, _):
        with pytest.raises(AgentError, match=reason):
            await made(command(*argv, deadline_s=1 if "sleep 60" in argv else 60), bench)


async def test_templates_are_filled_in_one_pass():
    agent = command(
        "python", "-c", "import sys; open('train.py', 'w').write(repr(sys.argv[1:]))", "{prompt}", "{model}"
    )
    agent = CommandAgent({"argv": [*agent._config.argv, "{editable}"], "instructions": "keep {model} and {prompt}"})
    async with benched() as (bench, _):
        proposal = await made(agent, bench)
    said = child_of(proposal)["train.py"]
    assert "keep {model} and {prompt}" in said
    assert said.endswith("'m', 'train.py']")


async def test_gemini_finds_its_way_to_log_in_where_it_looks_for_it(tmp_path):
    """Told only the base URL, it refuses to start; a stand-in that writes down what it finds and was told."""
    program = tmp_path / "bin" / "gemini"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\ncat "$HOME/.gemini/settings.json" > train.py; echo "$4 $6 $7" >> train.py\n')
    program.chmod(0o755)
    tmp_path.chmod(0o755)  # the box is nobody in particular
    async with benched() as (bench, _):
        proposal = await made(CommandAgent({"preset": "gemini", "mounts": [str(tmp_path)]}), bench)
    assert child_of(proposal)["train.py"] == ('{"security": {"auth": {"selectedType": "gemini-api-key"}}}json -m m\n')


def test_every_preset_has_a_command_line_but_the_generic_one():
    for name, preset in PRESETS.items():
        assert bool(preset.argv) == (name != "generic")
        agent = CommandAgent({"preset": name, "argv": ["own"]})
        assert agent.needs_model == (name != "generic")
        if name != "generic":
            assert CommandAgent({"preset": name}).name == "command"
    with pytest.raises(InputError, match="no command line"):
        CommandAgent({})
    with pytest.raises(InputError, match="no absolute path"):
        CommandAgent({"preset": "claude", "mounts": ["relative"]})


@pytest.mark.parametrize(
    "body",
    [
        "return {'train.py': ask['prompt'] and 'RATE = 0.3\\n'}",
        "open('train.py', 'w').write('RATE = 0.3\\n')",
    ],
)
@pytest.mark.parametrize("how", ["def", "async def"])
async def test_a_python_function(tmp_path, body, how):
    file = tmp_path / "mine.py"
    file.write_text(
        f"{how} improve(ask):\n    assert ask['editable'] == ['train.py'] and ask['base_url']\n    {body}\n"
    )
    async with benched() as (bench, _):
        proposal = await made(PythonAgent({"file": str(file)}), bench)
    assert child_of(proposal)["train.py"] == "RATE = 0.3\n"
    assert proposal.note == "mine.improve edits train.py"


async def test_a_python_function_that_returns_something_else_says_so(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def improve(ask):\n    return 'RATE = 0.3'\n")
    async with benched() as (bench, _):
        with pytest.raises(AgentError, match="improve returned str; it may return"):
            await made(PythonAgent({"file": str(file)}), bench)


async def test_scratch_that_an_agent_leaves_is_named_with_what_to_do():
    async with benched() as (bench, _):
        proposal = await made(command("sh", "-c", "echo 'RATE = 0.2' > train.py; touch notes.txt"), bench)
        dropped = await made(
            command("sh", "-c", "echo 'RATE = 0.2' > train.py; touch notes.txt", drop=["notes.txt"]), bench
        )
    assert proposal.note == "sh edits notes.txt, train.py; it leaves notes.txt: if that is scratch, name it under drop"
    assert dropped.note == "sh edits train.py"


async def test_an_agent_is_proved_by_its_program_being_there(tmp_path):
    program = tmp_path / "bin" / "codex"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    tmp_path.chmod(0o755)  # the box is nobody in particular
    here = [str(tmp_path)]
    async with benched() as (bench, _):
        for well in (
            CommandAgent({"preset": "codex", "mounts": here}),
            command("codex", mounts=here),
            command(str(program), mounts=here),
            command("sh", "-c", "true"),
            command("python", "-c", ""),
            command("./in_the_subject.sh"),
            AcpAgent({"argv": ["codex"], "mounts": here}),
        ):
            await well.prove(bench)
        for lacking in (
            CommandAgent({"preset": "codex"}),
            CommandAgent({"preset": "mini-swe-agent", "mounts": here}),
            command("codex"),
            command(str(program)),
            AcpAgent({"preset": "opencode", "mounts": here}),
        ):
            with pytest.raises(InputError, match="the agent's box has no program") as caught:
                await lacking.prove(bench)
            assert "mounts = " in caught.value.mend


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import nothing_of_that_name\ndef improve(ask): ...\n", "ModuleNotFoundError: No module named"),
        ("def other(ask): ...\n", "there is no function improve in it"),
        ("improve = 3\n", "there is no function improve in it"),
        ("def improve(ask)\n", "SyntaxError"),
    ],
)
async def test_a_python_agent_is_proved_by_being_loaded_and_not_called(tmp_path, source, problem):
    file = tmp_path / "mine.py"
    async with benched() as (bench, _):
        file.write_text("def improve(ask):\n    raise ValueError\n")
        await PythonAgent({"file": str(file)}).prove(bench)
        file.write_text(source)
        with pytest.raises(InputError, match=problem):
            await PythonAgent({"file": str(file)}).prove(bench)


async def test_a_python_function_that_raises_says_so(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def improve(ask):\n    raise ValueError('no idea')\n")
    async with benched() as (bench, _):
        with pytest.raises(AgentError, match="no idea"):
            await made(PythonAgent({"file": str(file)}), bench)
    with pytest.raises(InputError, match="no such file"):
        PythonAgent({"file": str(tmp_path / "other.py")})


ACP = """
import json, sys
def send(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def call(number, method, **params):
    send(id=number, method=method, params=params)
    return json.loads(sys.stdin.readline())["result"]
for row in sys.stdin:
    message = json.loads(row)
    method, number = message["method"], message["id"]
    if method == "initialize":
        send(id=number, result={"protocolVersion": message["params"]["protocolVersion"]})
    elif method == "session/new":
        send(id=number, result={"sessionId": "s1"})
    elif method == "session/prompt":
        assert message["params"]["prompt"][0]["text"].startswith("Improve the program")
        said = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "on it"}}
        send(method="session/update", params={"update": said})
        options = [{"optionId": "no", "kind": "reject_once"}, {"optionId": "yes", "kind": "allow_once"}]
        assert call("a", "session/request_permission", options=options)["outcome"]["optionId"] == "yes"
        before = call("b", "fs/read_text_file", path="train.py")["content"]
        call("c", "fs/write_text_file", path="train.py", content=before.replace("0.1", "0.4"))
        send(id=number, result={"stopReason": "end_turn"})
"""


@pytest.mark.parametrize("box", ["embedded", "process"])
async def test_an_agent_that_speaks_acp(box):
    async with benched(box=box) as (bench, _):
        proposal = await made(AcpAgent({"argv": ["python" if box == "embedded" else sys.executable, "-c", ACP]}), bench)
    assert child_of(proposal) == {"train.py": "RATE = 0.4\n", "locked.py": "KEY = 1\n"}


@pytest.mark.parametrize(("preset", "program"), [("gemini", "gemini"), ("opencode", "opencode")])
async def test_an_acp_agent_with_a_preset_is_told_of_the_model(tmp_path, preset, program):
    """Stand-ins that write down what they were told before they speak the protocol."""
    told = '"$HOME/.gemini/settings.json"' if preset == "gemini" else '"$OPENCODE_CONFIG"'
    path = tmp_path / "bin" / program
    path.parent.mkdir()
    (tmp_path / "acp.py").write_text(ACP)
    path.write_text(f'#!/bin/sh\ncat {told} > told.txt; echo "$@" >> told.txt\nexec python3 {tmp_path}/acp.py\n')
    path.chmod(0o755)
    tmp_path.chmod(0o755)  # the box is nobody in particular
    async with benched() as (bench, _):
        agent = AcpAgent({"preset": preset, "mounts": [str(tmp_path)]})
        proposal = await made(agent, bench)
    child = child_of(proposal)
    assert child["train.py"] == "RATE = 0.4\n"
    assert agent.needs_model
    assert "--acp" in child["told.txt"] if preset == "gemini" else '"model": "strop/m"' in child["told.txt"]


def test_an_acp_agent_needs_a_command_line_or_a_preset_that_speaks_it():
    with pytest.raises(InputError, match="no command line"):
        AcpAgent({})
    with pytest.raises(InputError, match="preset"):
        AcpAgent({"preset": "aider"})
    assert not AcpAgent({"argv": ["mine"]}).needs_model


async def test_an_acp_agent_in_python_starts_where_no_program_has_that_name():
    async with benched() as (bench, _):
        proposal = await made(AcpAgent({"argv": ["python", "-c", ACP], "env": ["PATH=/nowhere"]}), bench)
    assert child_of(proposal)["train.py"] == "RATE = 0.4\n"
