"""The process: its settings, its log, its end."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from tests.mcp_demo.demo_server import DemoServer, running

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"


def start(**environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a server that must not come up."""
    command = [sys.executable, "-m", "agentchat.mcp_demo", "--name", "mcp-demo", "--run-dir", "tests"]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=20)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AGENTCHAT_MCP_PORT", "eighty"),
        ("AGENTCHAT_MCP_PORT", "70000"),
        ("AGENTCHAT_MCP_HOSTS", "tools.example,http://tools.example/api"),
        ("AGENTCHAT_LOG_LEVEL", "loud"),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_it(name: str, value: str) -> None:
    ended = start(**{name: value})

    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    assert name in ended.stderr


def test_a_taken_port_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ended = start(AGENTCHAT_HOST="127.0.0.1", AGENTCHAT_MCP_PORT=port)

    assert ended.returncode != 0
    assert port in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_process_despite_connected_clients(number: int) -> None:
    with running() as server:
        server.rpc("ping")  # the connection of this client stays open
        server.process.send_signal(number)
        assert server.process.join(5) == 0


@pytest.mark.parametrize("carrier", ["headers", "_meta"])
def test_a_call_is_logged_with_the_trace_of_its_caller(carrier: str) -> None:
    traceparent = f"00-{TRACE_ID}-00f067aa0ba902b7-01"
    call = {"name": "get_order", "arguments": {"order_id": "ORD-1001"}}
    with running() as server:
        if carrier == "headers":
            server.rpc("tools/call", call, traceparent=traceparent)
        else:
            server.rpc("tools/call", call | {"_meta": {"traceparent": traceparent}})
    (line,) = [line for line in server.log if line["event"] == "tool_called"]

    assert line["trace_id"] == TRACE_ID
    assert line["service"] == "mcp-demo"
    assert line["tool"] == "get_order"
    assert line["is_error"] is False


def test_what_callers_send_is_not_logged() -> None:
    secret = "not for the log"
    with running(AGENTCHAT_LOG_LEVEL="debug") as server:
        server.refusal("get_order", order_id=secret)
        server.get("add_ticket_comment", ticket_id="TCK-505", message=secret)
        server.post(secret)

    assert secret not in json.dumps(server.log)


def test_a_client_that_leaves_halfway_disturbs_nobody(server: DemoServer) -> None:
    host, port = server.http.base_url.host, server.http.base_url.port
    assert port is not None
    with socket.create_connection((host, port), timeout=5) as halfway:
        head = f"POST /api/mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        halfway.sendall(head.encode() + b'Content-Length: 99\r\n\r\n{"jsonrpc"')

    assert server.rpc("ping")["result"] == {}
