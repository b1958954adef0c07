"""The process: its log and its end."""

import json

import pytest

from tests.mcp_demo.demo_server import run_demo_server

pytestmark = pytest.mark.slow

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_calls_are_logged_with_their_trace_and_without_contents() -> None:
    traceparent = f"00-{TRACE_ID}-00f067aa0ba902b7-01"
    call = {"name": "get_order", "arguments": {"order_id": "ORD-1001"}}
    secret = "not for the log"
    with run_demo_server(AGENTCHAT_LOG_LEVEL="debug") as server:
        server.call_rpc("tools/call", call, traceparent=traceparent)
        server.call_rpc("tools/call", call | {"_meta": {"traceparent": traceparent}})
        server.get_refusal("get_order", order_id=secret)
        server.get("add_ticket_comment", ticket_id="TCK-505", message=secret)
        server.post(secret)
    traced = [
        line for line in server.log if line["event"] == "tool_called" and line.get("trace_id") == TRACE_ID
    ]
    assert [(line["service"], line["tool"], line["is_error"]) for line in traced] == [
        ("mcp-demo", "get_order", False)
    ] * 2
    assert secret not in json.dumps(server.log)


def test_sigterm_ends_the_process_despite_connected_clients() -> None:
    with run_demo_server() as server:
        server.call_rpc("ping")  # the connection of this client stays open
        server.process.terminate()
        assert server.process.join(5) == 0
