"""`agentchat chat` with piped lines and with single messages."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from agentchat.ops.errors import StackError
from agentchat.ops.main import app
from tests.client.driving import AGENT, KEY
from tests.client.given import DONE_1, META, REPLY, THREAD, make_delta
from tests.client.server import (
    TRACE,
    Answer,
    ScriptedServer,
    as_json,
    encode_lines,
    respond_problem,
    split_chunks,
    stop_unfinished,
)
from tests.harness import RunningStack
from tests.terminal.terminal import surroundings


def at(server: ScriptedServer) -> dict[str, str]:
    """Return the environment that leads to the server."""
    return {"AGENTCHAT_BASE_URL": server.url, "AGENTCHAT_API_KEY": KEY, "AGENTCHAT_AGENT_ID": AGENT}


def _run(
    folder: Path, *script: Answer, stdin: bytes = b"", arguments: tuple[str, ...] = ()
) -> tuple[Result, ScriptedServer]:
    unset = {name: None for name in os.environ if name.startswith("AGENTCHAT_")}
    with ScriptedServer(*script) as server:
        environ = unset | {"AGENTCHAT_RUN_DIR": str(folder)} | at(server)
        return CliRunner().invoke(app, ["chat", *arguments], input=stdin, env=environ), server


def test_each_line_is_a_message_of_one_thread(tmp_path: Path) -> None:
    done, server = _run(
        tmp_path,
        split_chunks(encode_lines(META, make_delta("Grüße,\n"), make_delta("**Ada**\x1b[2J."), DONE_1)),
        respond_problem(400, "invalid_request"),
        split_chunks(encode_lines(META, make_delta("Bye."), DONE_1)),
        stdin=b"Hello\n\n/new is text\r\nlast",
    )
    assert done.stdout == "Grüße,\n**Ada**␛[2J.\nBye.\n"
    assert done.stderr.startswith("agentchat: 400 invalid_request: ")
    assert done.exit_code == 1
    assert [request.json["message"] for request in server.requests] == ["Hello", "/new is text", "last"]
    assert [request.json.get("conversation_id") for request in server.requests] == [None, THREAD, THREAD]


def test_one_message_as_json(tmp_path: Path) -> None:
    done, server = _run(tmp_path, as_json(REPLY), arguments=("-m", "Hello", "--json", "-c", THREAD))
    assert done.exit_code == 0, done.stderr
    reply = json.loads(done.stdout)
    assert reply["message"]["content"] == REPLY["message"]["content"]
    assert reply["tool_calls"] == REPLY["tool_calls"]
    assert done.stdout.isascii()
    assert server.requests[0].json["conversation_id"] == THREAD


def test_ctrl_c_cancels_the_run_and_ends_it(tmp_path: Path) -> None:
    script = (stop_unfinished(encode_lines(META, make_delta("Slowly"))), as_json({}))
    with ScriptedServer(*script) as server:
        client = subprocess.Popen(
            [sys.executable, "-m", "agentchat.ops.main", "chat", "-m", "Hello"],
            env=surroundings(tmp_path, at(server)),
            stdout=subprocess.PIPE,
        )
        with client:
            assert client.stdout is not None
            assert client.stdout.read(6) == b"Slowly"
            client.send_signal(signal.SIGINT)
            assert client.wait(30) == 130
    assert [request.target for request in server.requests[1:]] == [f"/v1/chat/{TRACE}/cancel"]


def test_a_refused_key_ends_it_at_the_first_line(tmp_path: Path) -> None:
    done, server = _run(tmp_path, respond_problem(401, "invalid_api_key"), stdin=b"a\nb\n")
    assert isinstance(done.exception, StackError)
    assert (done.exception.exit_code, done.output) == (1, "")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("arguments", "environ", "code", "message"),
    [
        ((), {}, 1, "nothing runs in"),
        ((), {"AGENTCHAT_BASE_URL": "http://127.0.0.1:9"}, 2, "set AGENTCHAT_API_KEY"),
        (("--base-url", "http://127.0.0.1:9"), {"AGENTCHAT_API_KEY": "k"}, 2, "no agent"),
        (
            ("--base-url", "ftp://x", "--agent", "0192f0c1-0000-7000-8000-0000000000b1"),
            {"AGENTCHAT_API_KEY": "k"},
            2,
            "base_url",
        ),
    ],
)
def test_what_is_missing_is_said(
    tmp_path: Path, arguments: tuple[str, ...], environ: dict[str, str], code: int, message: str
) -> None:
    unset = {name: None for name in os.environ if name.startswith("AGENTCHAT_")}
    given = unset | {"AGENTCHAT_RUN_DIR": str(tmp_path)} | environ
    done = CliRunner().invoke(app, ["chat", *arguments], input="Hello\n", env=given)
    assert isinstance(done.exception, StackError)
    assert done.exception.exit_code == code
    assert message in str(done.exception)
    assert done.output == ""


def test_running_stack_answers_piped_lines(stack: RunningStack, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agentchat.ops.main", "chat"],
        input=b"My name is Ada.\nWhat is my name?\n",
        env=surroundings(tmp_path, {"AGENTCHAT_RUN_DIR": str(stack.folder.path)}),
        capture_output=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert b"Your name is Ada" in done.stdout.splitlines()[-1]
