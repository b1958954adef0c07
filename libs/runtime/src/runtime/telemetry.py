"""OpenTelemetry traces: W3C context across HTTP and NATS, OTLP export where an endpoint is set.

Without an endpoint their SDK is not loaded: spans then carry valid ids and are passed on, but record nothing.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import Attributes

from runtime._quiet_tracer import QuietTracer

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

_propagator = TraceContextTextMapPropagator()


class _State:
    """What `configure` chose; spans are made all over a process, so this one thing is held by the module."""

    tracer: trace.Tracer = QuietTracer()
    provider: "TracerProvider | None" = None


def configure(service: str, endpoint: str | None, *, exporter: "SpanExporter | None" = None) -> None:
    """Export spans in batches to `endpoint` (OTLP over HTTP), or one by one to `exporter`, or not at all.

    `endpoint` is the collector's base address, such as http://127.0.0.1:4318.
    """
    shutdown()
    if endpoint or exporter:
        from runtime._discreet_tracer import DiscreetTracer

        _State.provider = _exporting(service, endpoint, exporter)
        _State.tracer = DiscreetTracer(_State.provider.get_tracer("agentchat"))


def shutdown() -> None:
    """Send what waits (5 s at most) and export no more."""
    provider, _State.provider, _State.tracer = _State.provider, None, QuietTracer()
    if provider is not None:
        provider.force_flush(5000)
        provider.shutdown()


def tracer() -> trace.Tracer:
    """The tracer that `configure` chose. Ask again instead of keeping it at import."""
    return _State.tracer


def new_trace(
    name: str, headers: Mapping[str, str] | None = None, attributes: Attributes = None
) -> AbstractContextManager[trace.Span]:
    """A server span that begins its own trace; a traceparent in `headers` becomes a link, not the parent."""
    theirs = trace.get_current_span(extract(headers)).get_span_context()
    return _State.tracer.start_as_current_span(
        name,
        context=Context(),
        kind=trace.SpanKind.SERVER,
        attributes=attributes,
        links=[trace.Link(theirs)] if theirs.is_valid else None,
    )


def inject(headers: dict[str, str]) -> dict[str, str]:
    """Add the current span's W3C `traceparent` (and `tracestate`) to `headers`, and return them."""
    _propagator.inject(headers)
    return headers


def extract(headers: Mapping[str, str] | None) -> Context:
    """The remote parent that `headers` name; an empty context where they name none."""
    if not headers:
        return Context()
    return _propagator.extract({key.lower(): value for key, value in headers.items()}, Context())


def current_trace_id() -> str:
    """The current span's trace id, 32 hex digits; all zeros outside every span."""
    return trace_id_of(trace.get_current_span())


def trace_id_of(span: trace.Span) -> str:
    """The same of any span."""
    return f"{span.get_span_context().trace_id:032x}"


def _exporting(service: str, endpoint: str | None, exporter: "SpanExporter | None") -> "TracerProvider":
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": service}), shutdown_on_exit=False)
    if exporter is not None:
        provider.add_span_processor(SimpleSpanProcessor(exporter))
    if endpoint:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        address = endpoint.rstrip("/") + "/v1/traces"
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=address, timeout=5)))
    return provider
