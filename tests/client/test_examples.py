"""The examples as a reader runs them: on the system, and the TypeScript client on a scripted server."""

import asyncio
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests import installed
from tests.client.conftest import Serve
from tests.client.given import ADA, DONE_2, FAILURE, HELLO, REPLY, START, make_delta
from tests.client.server import (
    ScriptedServer,
    as_json,
    encode_lines,
    respond_problem,
    split_chunks,
    stop_unfinished,
)
from tests.client.typescript import Node, find_runner
from tests.harness import RunningStack

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"

Environment = dict[str, str]


@pytest.fixture
def demo(stack: RunningStack) -> Environment:
    """The variables that `demo.env` sets for the examples."""
    found = stack.environment
    return {"BASE_URL": found.base_url, "API_KEY": found.api_key, "AGENT_ID": found.agent_id}


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    return find_runner(EXAMPLES / "typescript", tmp_path_factory.mktemp("typescript"))


async def run(command: list[str], environment: Environment) -> tuple[int, str, str]:
    """Run a command; return its exit code, standard output and standard error."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(40):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def run_example(command: list[str], environment: Environment) -> str:
    """Return the output of a command that succeeds."""
    code, out, err = await run(command, environment)
    assert code == 0
    assert err == ""
    return out


REMEMBERED = r"^user: Hello, my name is Ada\.\nassistant: .*user: What is my name\?.*Ada"
CALLED = r"- track_shipment\(\{\"order_id\":\"ORD-1006\"\}\)"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["python/chat.py", "Where is", "order ORD-1001?"], r"ORD-1001.*\n- .*tokens, conversation "),
        (["python/stream.py"], r'\{"order_id": "ORD-1006"\}\].*ORD-1006.*characters, conversation '),
        (["python/continue_thread.py"], REMEMBERED),
        (["openai/responses.py"], CALLED + r": completed.*\n\(completed, resp_.*\n\(completed, resp_"),
    ],
)
async def test_a_python_example_shows_what_came(demo: Environment, arguments: list[str], shown: str) -> None:
    example, *said = arguments
    out = await run_example([sys.executable, str(EXAMPLES / example), *said], demo)
    assert re.search(shown, out, re.DOTALL), out


@pytest.mark.parametrize(
    ("example", "shown"),
    [
        ("chat.ts", r"ORD-1006.*\n- "),
        ("stream.ts", r'\{"order_id":"ORD-1006"\}\].*tokens, conversation '),
        ("continue.ts", "Ada"),
    ],
)
async def test_a_typescript_example_shows_what_came(
    node: Node, demo: Environment, example: str, shown: str
) -> None:
    out = await run_example(node(example), demo)
    assert re.search(shown, out, re.DOTALL), out


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("folder", "shown"),
    [
        ("ai-sdk", CALLED + r": output-available.*> Thanks!\n.*tokens, conversation "),
        ("ag-ui", CALLED + r"\n  gave .*> Thanks!\n.*messages in the thread"),
    ],
)
async def test_an_example_of_another_client_shows_a_tool_and_goes_on(
    demo: Environment, folder: str, shown: str
) -> None:
    packages = await installed.node_packages(EXAMPLES / folder)
    out = await run_example(["node", str(packages / "chat.mjs")], demo)
    assert re.search(shown, out, re.DOTALL), out


async def test_the_curl_chat_example_shows_the_json_reply(demo: Environment) -> None:
    reply = json.loads(await run_example(find_curl("chat"), demo))
    assert "ORD-1006" in reply["message"]["content"]


async def test_the_curl_stream_example_shows_the_events(demo: Environment) -> None:
    out = await run_example(find_curl("stream"), demo)
    events = [json.loads(line[6:]) for line in out.split("\n") if line.startswith("data: ")]
    assert events[0]["type"] in ("meta", "start")
    assert events[-1]["type"] == "done"


async def test_the_curl_continue_example_remembers_and_reads_back(demo: Environment) -> None:
    out = await run_example(find_curl("continue"), demo)
    second, history = (json.loads(line) for line in out.strip().split("\n"))
    assert "Ada" in second["message"]["content"]
    assert [message["role"] for message in history["data"]] == ["user", "assistant"] * 2


async def test_the_curl_examples_fail_with_the_problem_on_a_wrong_key(demo: Environment) -> None:
    code, out, err = await run(find_curl("chat"), demo | {"API_KEY": "sk-ac-wrong"})
    assert code == 22
    assert json.loads(out)["code"] == "invalid_api_key"
    assert "401" in err


@pytest.mark.parametrize("protocol", ["openai", "ag-ui", "ai-sdk"])
async def test_approval_examples_run_only_what_is_approved(demo: Environment, protocol: str) -> None:
    example = [sys.executable, str(EXAMPLES / protocol / f"approvals_{protocol.replace('-', '_')}.py")]
    denied = await run_example([*example, "no", "Cancel", "ORD-1031"], demo)
    assert "Refund: " not in denied
    allowed = await run_example([*example, "yes", "Cancel", "ORD-1031"], demo)
    assert '- cancel_order({"order_id":"ORD-1031"})' in allowed.replace(": ", ":")
    assert "Refund: " in allowed


def build_environment(server: ScriptedServer) -> Environment:
    return {"BASE_URL": server.url, "API_KEY": "sk-ac-never-to-be-shown", "AGENT_ID": "agent"}


async def test_the_typescript_client_reads_a_stream_cut_at_every_byte(node: Node, serve: Serve) -> None:
    complete = b": ping\n\n" + encode_lines(
        START, make_delta("Grüße 🙂\u2028data: 你好"), {"type": "new"}, ADA, DONE_2
    )
    server = serve(split_chunks(*(bytes([byte]) for byte in complete)))
    out = await run_example(node("stream.ts", "Hello", "there"), build_environment(server))
    assert out.startswith("Grüße 🙂\u2028data: 你好Ada.\n(42 tokens")
    asked = server.requests[0]
    assert asked.json == {"message": "Hello there", "conversation_id": None}
    assert asked.headers["x-stream-form"] == "2"


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (split_chunks(encode_lines(START, HELLO, FAILURE)), "provider_error: The model provider failed."),
        (split_chunks(encode_lines(START, HELLO)), "The stream was cut"),
        (stop_unfinished(encode_lines(START, HELLO), then="close"), "terminated"),
    ],
    ids=["error event", "no end", "connection closed"],
)
async def test_the_typescript_client_fails_where_a_stream_does(
    node: Node, serve: Serve, stream: object, reason: str
) -> None:
    server = serve(stream)
    code, out, err = await run(node("stream.ts"), build_environment(server))
    assert code == 1
    assert out == "Grüße, "
    assert reason in err
    assert "sk-ac" not in err
    assert len(server.requests) == 1


async def test_the_typescript_client_retries_with_the_same_idempotency_key(node: Node, serve: Serve) -> None:
    server = serve(respond_problem(429, "rate_limited", headers={"Retry-After": "0"}), as_json(REPLY))
    assert "Grüße, Ada." in await run_example(node("chat.ts"), build_environment(server))
    first, second = server.requests
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


async def test_the_typescript_client_raises_a_refusal_at_once(node: Node, serve: Serve) -> None:
    server = serve(respond_problem(404, "agent_not_found"))
    code, _, err = await run(node("chat.ts"), build_environment(server))
    assert code == 1
    assert "404: " in err
    assert "agent_not_found" in err
    assert len(server.requests) == 1


def find_curl(name: str) -> list[str]:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    return ["sh", str(EXAMPLES / "curl" / f"{name}.sh")]
