"""JSON-RPC over HTTP, as the README says it is answered; the MCP SDK reads the messages."""

import json
from typing import Any

import pytest

from tests.mcp_demo.demo_server import DemoServer

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.mark.parametrize(("body", "code"), [(b"{", -32700), (json.dumps([PING]).encode(), -32602)])
def test_malformed_message_is_refused(server: DemoServer, body: bytes, code: int) -> None:
    response = server.post(body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, code)


def test_unknown_method_is_not_found(server: DemoServer) -> None:
    assert server.rpc("no/such")["error"]["code"] == -32601


def test_unknown_tool_is_a_tool_error(server: DemoServer) -> None:
    assert "no_such_tool" in server.refusal("no_such_tool")


@pytest.mark.parametrize("message", [{"jsonrpc": "2.0", "method": "notifications/initialized"}])
def test_notification_is_accepted(server: DemoServer, message: dict[str, Any]) -> None:
    response = server.post(json.dumps(message))
    assert (response.status_code, response.content) == (202, b"")


def test_responses_are_json_without_a_session(server: DemoServer) -> None:
    response = server.post(json.dumps(PING), accept="application/json, text/event-stream")
    assert response.json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert response.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in response.headers


def test_body_over_one_mebibyte_is_refused(server: DemoServer) -> None:
    message = json.dumps(PING | {"params": {"_meta": {"x": "y" * 2**20}}})
    assert server.post(message).status_code == 413
