"""`GET /api/mcp` and the health paths."""

import pytest

from tests.mcp_demo.demo_server import DemoServer

FIELDS = [
    "name",
    "version",
    "protocol",
    "protocolVersion",
    "description",
    "transport",
    "tools_count",
    "categories",
    "endpoints",
]


def test_the_information_has_exactly_the_fields_of_the_specification(server: DemoServer) -> None:
    response = server.http.get("/api/mcp")

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert list(body) == FIELDS
    assert body["protocol"] == "MCP over Streamable HTTP"
    assert body["protocolVersion"] == "2024-11-05"
    assert body["transport"] == "Sessionless Streamable HTTP"
    assert body["tools_count"] == 21
    assert body["categories"] == [
        "Order Status",
        "Business Intelligence",
        "Recommendations",
        "Customer Support",
        "Product Discovery",
    ]
    assert set(body["endpoints"]) == {"mcp_post", "mcp_get"}
    assert all(isinstance(text, str) and text for text in body["endpoints"].values())
    assert all(isinstance(body[name], str) and body[name] for name in ("name", "version", "description"))


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "OPTIONS"])
def test_there_is_no_stream_to_open_and_no_session_to_end(server: DemoServer, method: str) -> None:
    """MCP transports: a server without a GET stream answers 405, and may refuse DELETE so."""
    response = server.http.request(method, "/api/mcp", headers={"accept": "text/event-stream"})

    assert response.status_code == 405
    assert response.headers["allow"] == "GET, HEAD, POST"
