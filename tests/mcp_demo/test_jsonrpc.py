"""Malformed messages, and the JSON-RPC errors that answer them. The MCP SDK reads the messages."""

import json
from typing import Any

import pytest

from tests.mcp_demo.demo_server import DemoServer

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def error_of(server: DemoServer, body: bytes | str, **headers: str) -> tuple[int, int, object]:
    """HTTP status, error code and id of the answer."""
    response = server.post(body, **headers)
    answer = response.json()
    assert answer["jsonrpc"] == "2.0"
    assert answer["error"]["message"]
    return response.status_code, answer["error"]["code"], answer["id"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"',
        b"{'jsonrpc':'2.0'}",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"} trailing',
        b'{"id":"\xff"}',
        b'{"id":"\\ud800","jsonrpc":"2.0","method":"ping"}',
        b"[" * 100_000,
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_is_not_json_is_a_parse_error(server: DemoServer, body: bytes) -> None:
    assert error_of(server, body) == (400, -32700, None)


@pytest.mark.parametrize(
    "message",
    [
        1,
        None,
        {},
        [],
        [PING],
        {"id": 1, "method": "ping"},
        {"jsonrpc": "1.0", "id": "a", "method": "ping"},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": 1, "method": 7},
        PING | {"params": "x"},
        PING | {"params": [1]},
    ],
)
def test_json_that_is_no_message_is_refused(server: DemoServer, message: Any) -> None:
    """Batches too: MCP 2025-06-18 removed them. The SDK's code is -32602 for all of these."""
    assert error_of(server, json.dumps(message)) == (400, -32602, None)


def test_the_newest_protocol_refuses_them_with_the_code_of_json_rpc(server: DemoServer) -> None:
    for message in ([PING], 1, {"jsonrpc": "2.0"}):
        body = json.dumps(message)
        assert error_of(server, body, mcp_protocol_version="2026-07-28") == (400, -32600, None)


@pytest.mark.parametrize("method", ["no/such", "resources/list", "prompts/get", "logging/setLevel", "tools/"])
def test_an_unknown_method_is_not_found(server: DemoServer, method: str) -> None:
    assert server.rpc(method, {"name": "x"})["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("method", "params", "named"),
    [
        ("tools/call", {"name": "no_such_tool", "arguments": {}}, "no_such_tool"),
        ("tools/call", {"arguments": {}}, "name"),
        ("tools/call", {"name": 1}, "name"),
        ("tools/call", {"name": "get_order", "arguments": ["ORD-1001"]}, "arguments"),
        ("tools/list", {"cursor": "made-up"}, "cursor"),
        ("initialize", {"protocolVersion": "2025-11-25"}, "clientInfo"),
    ],
)
def test_invalid_params_are_named(
    server: DemoServer, method: str, params: dict[str, Any], named: str
) -> None:
    error = server.rpc(method, params)["error"]

    assert error["code"] == -32602
    assert named in error["message"]


@pytest.mark.parametrize("ident", [0, -7, "", "a b", 2**53, "ü\u0000"])
def test_the_answer_carries_the_requests_own_id(server: DemoServer, ident: str | int) -> None:
    answer = server.post(json.dumps(PING | {"id": ident})).json()
    assert answer == {"jsonrpc": "2.0", "id": ident, "result": {}}


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "no/such"},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
    ],
)
def test_a_message_that_is_no_request_is(server: DemoServer, message: dict[str, Any]) -> None:
    response = server.post(json.dumps(message))

    assert response.status_code == 202
    assert response.content == b""


@pytest.mark.parametrize(
    "accept",
    ["*/*", "application/json", "application/*;q=0.5, text/html", "text/event-stream, application/json"],
)
def test_a_client_that_accepts_json_gets_it(server: DemoServer, accept: str) -> None:
    response = server.post(json.dumps(PING), accept=accept)

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in response.headers


def test_media_types_that_cannot_be_served_are_refused(server: DemoServer) -> None:
    for accept in ("", "text/html", "text/event-stream"):
        assert error_of(server, json.dumps(PING), accept=accept) == (406, -32600, None)
    for content_type in ("text/plain", ""):
        assert server.post(json.dumps(PING), content_type=content_type).status_code == 400
    assert error_of(server, json.dumps(PING), content_type="application/jsonx") == (415, -32600, None)
    assert server.post(json.dumps(PING), content_type="application/json; charset=utf-8").status_code == 200


def test_a_body_may_have_one_mebibyte(server: DemoServer) -> None:
    def body(size: int) -> bytes:
        message = json.dumps(PING | {"params": {"_meta": {"x": ""}}}).encode()
        return message.replace(b'"x": "', b'"x": "' + b"y" * (size - len(message)))

    assert server.post(body(2**20)).json()["result"] == {}
    assert server.post(body(2**20 + 1)).status_code == 413


def test_a_chunked_body_has_the_same_bound(server: DemoServer) -> None:
    headers = {"content-type": "application/json"}
    response = server.http.post("/api/mcp", content=(b" " * 65536 for _ in range(17)), headers=headers)

    assert response.status_code == 413
