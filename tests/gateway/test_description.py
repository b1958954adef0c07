"""The description of the API, and the span of a request."""

import gzip
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from contracts import errors
from tests.gateway.client import Client
from tests.gateway.conftest import Accounts
from tests.gateway.process import GatewayProcess


@pytest.mark.requirement("PROBLEM-JSON", "CHAT-JSON")
async def test_the_api_describes_itself_and_fetches_nothing_from_elsewhere(client: Client) -> None:
    document = (await client.http.get(f"{client.url}/openapi.json")).json()
    assert list(document["paths"]) == [
        "/v1/chat",
        "/v1/chat/stream",
        "/v1/conversations",
        "/v1/conversations/{conversation_id}",
        "/v1/conversations/{conversation_id}/messages",
    ]
    schemas = document["components"]["schemas"]
    assert schemas["ChatBody"]["properties"].keys() == {"message", "conversation_id", "prompt"}
    assert schemas["ChatBody"]["additionalProperties"] is False
    references = {part.split('"')[0] for part in json.dumps(document).split("#/components/schemas/")[1:]}
    assert references <= schemas.keys()
    page = await client.http.get(f"{client.url}/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "://" not in page.text
    assert all(code in page.text for code in errors.ERRORS)


@pytest.fixture
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """An OTLP endpoint that keeps what it is sent."""
    received: list[bytes] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            zipped = self.headers.get("Content-Encoding") == "gzip"
            received.append(gzip.decompress(body) if zipped else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.requirement("TELEMETRY", "TRACE-ID")
async def test_a_request_is_a_span_with_route_and_status(
    collector: tuple[str, list[bytes]],
    http: httpx.AsyncClient,
    environ: dict[str, str],
    accounts: Accounts,
    tmp_path: Path,
) -> None:
    url, received = collector
    process = GatewayProcess(tmp_path, {**environ, "OTEL_EXPORTER_OTLP_ENDPOINT": url})
    await process.start()
    client = Client(http, process.url, accounts.free.key, accounts.free.agent)
    theirs = "4bf92f3577b34da6a3ce929d0e0e4736"
    response = await client.post(
        "/v1/chat/stream", content=b"{}", traceparent=f"00-{theirs}-00f067aa0ba902b7-01"
    )
    process.terminate()
    assert await process.wait() == 0
    spans = b"".join(received)
    assert b"POST /v1/chat/stream" in spans
    assert b"http.response.status_code" in spans
    assert bytes.fromhex(response.headers["x-trace-id"]) in spans
    assert bytes.fromhex(theirs) in spans
