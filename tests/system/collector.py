"""A collector of spans: OTLP over HTTP, as any OpenTelemetry collector takes it."""

import contextlib
import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """What was exported so far: (service name, span)."""

    def __init__(self) -> None:
        self.endpoint = ""
        self._spans: list[tuple[str, Span]] = []
        self._arrived = threading.Condition()

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        with self._arrived:
            for resource in request.resource_spans:
                names = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
                for scope in resource.scope_spans:
                    self._spans += [(names["service.name"], span) for span in scope.spans]
            self._arrived.notify_all()

    def everything(self) -> str:
        """All that was exported, as text."""
        with self._arrived:
            return " ".join(str(span) for _, span in self._spans)

    def spans_of(self, trace_id: str, services: set[str], seconds: float = 40) -> list[tuple[str, Span]]:
        """The spans of a trace, once each of `services` has sent some and all hang together under one root.

        Raises TimeoutError: spans of one trace come from several processes, in any order.
        """

        def find_spans() -> list[tuple[str, Span]]:
            return [(name, span) for name, span in self._spans if span.trace_id.hex() == trace_id]

        def is_complete() -> bool:
            return services <= {name for name, _ in find_spans()} and len(_roots(find_spans())) == 1

        with self._arrived:
            if self._arrived.wait_for(is_complete, seconds):
                return find_spans()
            came = sorted({name for name, _ in find_spans()})
            raise TimeoutError(f"spans came of {came}, with the roots {_roots(find_spans())}")


def _roots(found: list[tuple[str, Span]]) -> list[str]:
    known = {span.span_id for _, span in found}
    return [span.name for _, span in found if span.parent_span_id not in known]


@contextlib.contextmanager
def collector() -> Iterator[Collector]:
    """A collector on a free loopback port."""
    collected = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            plain = gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body
            collected.take(plain)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as inherited
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    collected.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield collected
    finally:
        server.shutdown()
        server.server_close()
