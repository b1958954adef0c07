"""The terminal client with the complete system."""

import re
import subprocess
import sys
from pathlib import Path

from tests.admin_cli.conftest import Cli
from tests.harness import RunningStack
from tests.terminal.terminal import CTRL_C, CTRL_D, Terminal, surroundings


def test_tools_sources_threads_and_a_reply_that_is_stopped(stack: RunningStack, tmp_path: Path) -> None:
    environ = {"AGENTCHAT_RUN_DIR": str(stack.folder.path)}
    slow = _agent(stack, "demo-load?deltas=4000&delay_ms=25")
    with Terminal(tmp_path, environ) as client:
        client.say("Where is my order ORD-1001?")
        client.see("⚙ ")
        client.see("ORD-1001")
        client.see("/tools shows more")
        client.say("/agent policies")
        client.say("How many days do I have to return an order?")
        client.see("Sources")
        client.see("[1] ")
        client.say("/new")
        client.say(f"/agent {slow}")
        client.say("Count")
        client.see("000009")
        client.type(CTRL_C)
        client.see("Stopped.")
        client.say("/agent starter")
        client.see("another account")
        client.say("Hello")
        client.see("continuing with form 1")
        client.see(" s ")
        client.say("/resume")
        client.see("Hello")
        client.see("> ")
        client.type(CTRL_D)
        assert client.end() == 0
        assert client.odd == []


def test_a_block_that_outgrows_the_terminal_while_it_is_written_is_there_once(
    stack: RunningStack, tmp_path: Path
) -> None:
    agent = _agent(stack, "demo-load?deltas=300&delay_ms=4")
    environ = {"AGENTCHAT_RUN_DIR": str(stack.folder.path)}
    with Terminal(tmp_path, environ, ("chat", "--agent", agent), rows=10) as client:
        client.say("Count")
        client.see("000100")
        client.say("/form")
        client.see("Form 2")
        written = client.text.rpartition("> Count")[2].partition("tokens")[0]
        assert re.findall(r"\b\d{6}\b", written) == [f"{number:06}" for number in range(300)]


def test_piped_lines_are_answered_by_the_running_stack(stack: RunningStack, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ops.main", "chat"],
        input=b"My name is Ada.\nWhat is my name?\n",
        env=surroundings(tmp_path, {"AGENTCHAT_RUN_DIR": str(stack.folder.path)}),
        capture_output=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert b"Your name is Ada" in done.stdout.splitlines()[-1]


def _agent(stack: RunningStack, model: str) -> str:
    """An agent of the demo's account with a model that is as slow as is wanted."""
    cli = Cli({"AGENTCHAT_RUN_DIR": str(stack.folder.path)})
    account = cli.json("agents", "show", stack.environment.agent_id)["account_id"]
    made = cli.json(
        "agents", "create", "--account", account, "--name", "Slow", "--model", model,
        "--provider-key", "@env:KEY", KEY="offline",
    )  # fmt: skip
    return str(made["id"])
