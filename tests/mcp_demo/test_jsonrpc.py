"""Messages that do not do, and what JSON-RPC answers to them."""

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


@pytest.mark.requirement("MCP-ERRORS")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"',
        b"{'jsonrpc':'2.0'}",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"} trailing',
        b'{"id":NaN}',
        b'{"id":"\xff"}',
        b'{"id":"\\ud800","jsonrpc":"2.0","method":"ping"}',
        b"[" * 100_000,
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_is_not_json_is_a_parse_error(server: DemoServer, body: bytes) -> None:
    assert error_of(server, body) == (400, -32700, None)


@pytest.mark.requirement("MCP-ERRORS")
@pytest.mark.parametrize(
    ("message", "ident"),
    [
        (1, None),
        ("ping", None),
        (None, None),
        ({}, None),
        ({"id": 1, "method": "ping"}, 1),
        ({"jsonrpc": "1.0", "id": "a", "method": "ping"}, "a"),
        ({"jsonrpc": "2.0", "id": 1}, 1),
        ({"jsonrpc": "2.0", "id": 1, "method": 7}, 1),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, None),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, None),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, None),
        ({"jsonrpc": "2.0", "id": {}, "method": "ping"}, None),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": "x"}, 1),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": None}, 1),
        ({"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}}, 1),
        ([], None),
    ],
)
def test_json_that_is_no_message_is_an_invalid_request(
    server: DemoServer, message: Any, ident: object
) -> None:
    assert error_of(server, json.dumps(message)) == (400, -32600, ident)


@pytest.mark.requirement("MCP-ERRORS")
@pytest.mark.parametrize("method", ["no/such", "resources/list", "prompts/get", "logging/setLevel", "tools/"])
def test_an_unknown_method_is_not_found(server: DemoServer, method: str) -> None:
    assert server.rpc(method, {"name": "x"})["error"]["code"] == -32601


@pytest.mark.requirement("MCP-ERRORS")
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
def test_params_that_do_not_do_are_invalid_and_named(
    server: DemoServer, method: str, params: dict[str, Any], named: str
) -> None:
    error = server.rpc(method, params)["error"]

    assert error["code"] == -32602
    assert named in error["message"]


@pytest.mark.requirement("MCP-ERRORS")
def test_params_by_position_are_invalid_params(server: DemoServer) -> None:
    assert error_of(server, json.dumps(PING | {"params": [1]})) == (400, -32602, 1)


@pytest.mark.requirement("MCP-RPC")
@pytest.mark.parametrize("ident", [0, -7, "", "a b", 2**53, "ü\u0000"])
def test_the_answer_carries_the_requests_own_id(server: DemoServer, ident: str | int) -> None:
    answer = server.post(json.dumps(PING | {"id": ident})).json()
    assert answer == {"jsonrpc": "2.0", "id": ident, "result": {}}


@pytest.mark.requirement("MCP-RPC")
@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "no/such"},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
    ],
)
def test_what_asks_for_no_answer_is_accepted_without_a_body(
    server: DemoServer, message: dict[str, Any]
) -> None:
    response = server.post(json.dumps(message))

    assert response.status_code == 202
    assert response.content == b""


@pytest.mark.requirement("MCP-RPC")
def test_a_batch_is_answered_in_its_order(server: DemoServer) -> None:
    """MCP 2025-03-26: servers must take batches; a request without the version header is of that version."""
    batch = [
        PING | {"id": "first"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        PING | {"id": 2, "method": "no/such"},
        17,
        PING | {"id": 3, "method": "initialize"},
        PING
        | {
            "id": 4,
            "method": "tools/call",
            "params": {"name": "get_product", "arguments": {"product_id": "PRD-101"}},
        },
    ]
    response = server.post(json.dumps(batch))

    answers = response.json()
    assert response.status_code == 200
    assert [answer["id"] for answer in answers] == ["first", 2, None, 3, 4]
    assert answers[0]["result"] == {}
    assert [answer["error"]["code"] for answer in answers[1:4]] == [-32601, -32600, -32600]
    assert answers[4]["result"]["structuredContent"]["product"]["name"] == "Wren 1 Solo Tent"


@pytest.mark.requirement("MCP-RPC")
def test_a_batch_of_notifications_is_accepted(server: DemoServer) -> None:
    batch = [{"jsonrpc": "2.0", "method": "notifications/initialized"}] * 2
    assert server.post(json.dumps(batch), mcp_protocol_version="2025-03-26").status_code == 202


@pytest.mark.requirement("MCP-ERRORS")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_newer_protocols_have_no_batches(server: DemoServer, version: str) -> None:
    assert error_of(server, json.dumps([PING]), mcp_protocol_version=version) == (400, -32600, None)


@pytest.mark.requirement("MCP-ERRORS")
def test_a_batch_has_a_bound(server: DemoServer) -> None:
    assert len(server.post(json.dumps([PING] * 50)).json()) == 50
    assert error_of(server, json.dumps([PING] * 51)) == (400, -32600, None)


@pytest.mark.requirement("MCP-RPC")
def test_a_client_that_takes_only_streams_gets_one(server: DemoServer) -> None:
    response = server.post(json.dumps(PING), accept="text/event-stream")

    assert response.headers["content-type"] == "text/event-stream"
    event, data = response.text.splitlines()[:2]
    assert event == "event: message"
    assert json.loads(data.removeprefix("data: ")) == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.requirement("MCP-RPC")
@pytest.mark.parametrize(
    "accept",
    ["", "*/*", "application/json", "application/*;q=0.5, text/html", "text/event-stream, application/json"],
)
def test_any_other_client_gets_json(server: DemoServer, accept: str) -> None:
    response = server.post(json.dumps(PING), accept=accept)

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in response.headers


@pytest.mark.requirement("MCP-ERRORS")
def test_media_types_that_cannot_be_served_are_refused(server: DemoServer) -> None:
    assert error_of(server, json.dumps(PING), accept="text/html") == (406, -32600, None)
    assert error_of(server, json.dumps(PING), content_type="text/plain") == (415, -32600, None)
    assert error_of(server, json.dumps(PING), content_type="") == (415, -32600, None)
    assert server.post(json.dumps(PING), content_type="application/json; charset=utf-8").status_code == 200


@pytest.mark.requirement("MCP-ERRORS")
def test_a_body_may_have_one_mebibyte(server: DemoServer) -> None:
    def body(size: int) -> bytes:
        message = json.dumps(PING | {"params": {"_meta": {"x": ""}}}).encode()
        return message.replace(b'"x": "', b'"x": "' + b"y" * (size - len(message)))

    assert server.post(body(2**20)).json()["result"] == {}
    assert error_of(server, body(2**20 + 1)) == (413, -32600, None)


@pytest.mark.requirement("MCP-ERRORS")
def test_a_chunked_body_has_the_same_bound(server: DemoServer) -> None:
    headers = {"content-type": "application/json"}
    response = server.http.post("/api/mcp", content=(b" " * 65536 for _ in range(17)), headers=headers)

    assert response.status_code == 413
