"""A tool server that repeats the headers it was sent, in each way in which it can answer."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOOLS = ("result", "error", "refusal", "broken", "garbage")


class Indiscreet:
    """`host` is to be allowed; `heard` is every request's headers, `called` the tools that were called."""

    def __init__(self) -> None:
        self.host = ""
        self.heard: list[str] = []
        self.called: list[str] = []

    @property
    def url(self) -> str:
        return f"http://{self.host}/mcp"

    @property
    def refusing_url(self) -> str:
        """Where it does not list its tools."""
        return f"http://{self.host}/refusing"

    def answer(self, path: str, message: dict[str, Any], headers: str) -> tuple[int, bytes]:
        """Status and body for a JSON-RPC message. `/broken` as a method's tool ends in 500."""
        self.heard.append(headers)
        method = message.get("method", "")
        if "id" not in message:
            return 202, b""
        if method == "initialize":
            result: dict[str, Any] = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "indiscreet", "version": "1"},
            }
        elif method == "tools/list" and path == "/refusing":
            return 200, _rpc(message, error={"code": -32603, "message": f"not accepted: {headers}"})
        elif method == "tools/list":
            result = {"tools": [_tool(name, headers) for name in TOOLS]}
        elif method == "tools/call":
            return self._call(message, headers)
        else:
            return 200, _rpc(message, error={"code": -32601, "message": "no such method"})
        return 200, _rpc(message, result=result)

    def _call(self, message: dict[str, Any], headers: str) -> tuple[int, bytes]:
        name = message["params"]["name"]
        self.called.append(name)
        if name == "refusal":
            return 200, _rpc(message, error={"code": -32000, "message": f"not with {headers}"})
        if name == "broken":
            return 500, f"Traceback: {headers}".encode()
        if name == "garbage":
            return 200, f'{{"jsonrpc": "2.0", "id": "{headers}'.encode()
        content = [{"type": "text", "text": f"You sent {headers}"}]
        return 200, _rpc(message, result={"content": content, "isError": name == "error"})


@contextlib.contextmanager
def indiscreet_server() -> Iterator[Indiscreet]:
    """It listens on a free loopback port while the block runs."""
    server_side = Indiscreet()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            headers = " ".join(f"{name}={value}" for name, value in self.headers.items())
            status, body = server_side.answer(self.path, message, headers)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_DELETE(self) -> None:
            self._refuse()

        def do_GET(self) -> None:
            self._refuse()

        def _refuse(self) -> None:
            self.send_response(405)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as inherited
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server_side.host = f"127.0.0.1:{server.server_address[1]}"
    try:
        yield server_side
    finally:
        server.shutdown()
        server.server_close()


def _tool(name: str, headers: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"id": {"type": "string", "description": f"Not {headers}."}}}
    return {"name": name, "description": f"Gives a {name} for {headers}.", "inputSchema": schema}


def _rpc(message: dict[str, Any], **outcome: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}).encode()
