"""Starts the real server as a process of its own, on a port the system gives it."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TextIO

import httpx

from tests.support.service_process import START_SECONDS, ServiceProcess, start_service


@dataclass
class DemoServer:
    """A running server: JSON-RPC by `rpc` and `call`, anything else by `http`."""

    process: ServiceProcess
    http: httpx.Client
    log: list[dict[str, Any]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return str(self.http.base_url.join("/api/mcp"))

    def post(self, content: bytes | str, **headers: str) -> httpx.Response:
        """POST a body as it is; header names are written with underscores."""
        sent = {"content-type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()}
        return self.http.post("/api/mcp", content=content, headers=sent)

    def call_rpc(
        self, method: str, params: dict[str, Any] | None = None, /, **headers: str
    ) -> dict[str, Any]:
        """Return the response message to a request with the id 1."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method} | ({"params": params} if params else {})
        answer: dict[str, Any] = self.post(json.dumps(message), **headers).json()
        assert answer["id"] == 1
        return answer

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool and return its result, an error or not."""
        result: dict[str, Any] = self.call_rpc("tools/call", {"name": tool, "arguments": arguments})["result"]
        return result

    def get(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the structured content of a call that must succeed."""
        result = self.call(tool, arguments)
        assert result["isError"] is False, result
        content: dict[str, Any] = result["structuredContent"]
        return content

    def get_refusal(self, tool: str, **arguments: Any) -> str:
        """Return the text of a call that must be refused."""
        result = self.call(tool, arguments)
        assert result["isError"] is True, result
        assert "structuredContent" not in result
        text: str = result["content"][0]["text"]
        return text


@contextmanager
def run_demo_server(**environment: str) -> Iterator[DemoServer]:
    """Run a server until the end of the block; collect its log lines."""
    arguments = ("--name", "mcp-demo", "--run-dir", "tests")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTCHAT_", "OTEL_"))}
    ours, theirs = os.pipe()
    with os.fdopen(ours) as pipe:
        process = start_service("mcp_demo", *arguments, env=own | environment, stderr=theirs)
        os.close(theirs)
        log: list[dict[str, Any]] = []
        listening = threading.Event()
        reader = threading.Thread(target=_collect, args=(pipe, log, listening))
        reader.start()
        try:
            assert listening.wait(START_SECONDS), "the server did not start in time"
            port = next(line["port"] for line in log if line["event"] == "listening")
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10) as http:
                assert http.get("/readyz").status_code == 200
                yield DemoServer(process, http, log)
        finally:
            process.terminate()
            process.join(10)
            reader.join()


def _collect(pipe: TextIO, log: list[dict[str, Any]], listening: threading.Event) -> None:
    for line in pipe:
        log.append(json.loads(line))
        if log[-1]["event"] == "listening":
            listening.set()
    listening.set()
