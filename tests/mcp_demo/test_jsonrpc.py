"""JSON-RPC over HTTP, as the README says it is answered; the MCP SDK reads the messages."""

import json

from tests.mcp_demo.demo_server import DemoServer

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def test_unknown_tool_is_a_tool_error(server: DemoServer) -> None:
    assert "no_such_tool" in server.get_refusal("no_such_tool")


def test_responses_are_json_without_a_session(server: DemoServer) -> None:
    response = server.post(json.dumps(PING), accept="application/json, text/event-stream")
    assert response.json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert response.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in response.headers


def test_body_over_one_mebibyte_is_refused(server: DemoServer) -> None:
    message = json.dumps(PING | {"params": {"_meta": {"x": "y" * 2**20}}})
    assert server.post(message).status_code == 413
