import contextlib
import gzip
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentchat.runtime import genai_attributes, tracing

REMOTE = {"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    tracing.configure("gateway", None, exporter=exporter)
    yield exporter
    tracing.shut_down()


def test_without_an_endpoint_ids_are_valid_and_travel() -> None:
    with tracing.open_span("work"):
        headers = tracing.inject({})
        here = tracing.get_trace_id()
    with tracing.open_span("taken", context=tracing.extract(headers)):
        there = tracing.get_trace_id()
    assert len(here) == 32
    assert int(here, 16) != 0
    assert there == here
    assert headers["traceparent"].split("-")[1] == here


def test_a_span_tells_the_kind_of_a_failure_and_none_of_its_words(exporter: InMemorySpanExporter) -> None:
    with (
        contextlib.suppress(ValueError),
        tracing.open_trace("outer"),
        tracing.open_span("inner"),
    ):
        raise ValueError("hunter2")
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == ["inner", "outer"]
    for span in spans:
        assert "hunter2" not in span.to_json()
        assert span.status.status_code is trace.StatusCode.ERROR
        assert (span.attributes or {})[genai_attributes.ERROR_TYPE] == "ValueError"


def test_what_a_span_was_told_of_its_failure_stays(exporter: InMemorySpanExporter) -> None:
    with contextlib.suppress(ValueError), tracing.open_span("work") as span:
        span.set_attribute(genai_attributes.ERROR_TYPE, "timeout")
        span.set_status(trace.Status(trace.StatusCode.ERROR, "provider_timeout"))
        raise ValueError("no")
    [ended] = exporter.get_finished_spans()
    assert (ended.attributes or {})[genai_attributes.ERROR_TYPE] == "timeout"
    assert ended.status.description == "provider_timeout"


def test_an_inbound_traceparent_is_a_link_and_never_the_parent(exporter: InMemorySpanExporter) -> None:
    ids = []
    for _ in range(2):
        with tracing.open_trace("POST /v1/chat", REMOTE):
            ids.append(tracing.get_trace_id())
    assert len({*ids, "0af7651916cd43dd8448eb211c80319c"}) == 3
    span, _ = exporter.get_finished_spans()
    assert span.parent is None
    assert [f"{link.context.trace_id:032x}" for link in span.links] == ["0af7651916cd43dd8448eb211c80319c"]


def test_spans_are_exported_with_service_name_and_attributes(exporter: InMemorySpanExporter) -> None:
    with tracing.open_span("chat", attributes={genai_attributes.OPERATION_NAME: genai_attributes.CHAT}):
        headers = tracing.inject({})
    with tracing.open_span("run", context=tracing.extract(headers)):
        pass
    chat, run = exporter.get_finished_spans()
    assert chat.resource.attributes["service.name"] == "gateway"
    assert chat.attributes == {"gen_ai.operation.name": "chat"}
    sent = chat.get_span_context()
    assert run.parent is not None
    assert sent is not None
    assert run.parent.span_id == sent.span_id
    assert run.parent.is_remote


@pytest.mark.parametrize("headers", [None, {}, {"traceparent": "nonsense"}, {"traceparent": "00-0-0-00"}])
def test_headers_without_a_context_begin_a_new_trace(headers: dict[str, str] | None) -> None:
    with tracing.open_span("work", context=tracing.extract(headers)) as span:
        assert span.get_span_context().is_valid


def test_outside_every_span_the_trace_id_is_zeros() -> None:
    assert tracing.get_trace_id() == "0" * 32


def test_no_exporter_is_loaded_without_an_endpoint() -> None:
    program = (
        "import sys\n"
        "from agentchat.runtime import tracing\n"
        "tracing.configure('x', None)\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'requests'))])\n"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert output.stdout == "[]\n"


class Collector(BaseHTTPRequestHandler):
    """Takes what an OTLP exporter posts."""

    received: ClassVar[list[tuple[str, bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append((self.path, body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: object) -> None: ...


def test_spans_are_sent_by_otlp_where_an_endpoint_is_set() -> None:
    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        tracing.configure("gateway", f"http://127.0.0.1:{server.server_port}/")
        with tracing.open_span("a-span-of-note"):
            pass
        tracing.shut_down()
        server.shutdown()
        thread.join()
    (path, body), *_ = Collector.received
    assert path == "/v1/traces"
    if body[:2] == b"\x1f\x8b":
        body = gzip.decompress(body)
    assert b"a-span-of-note" in body
