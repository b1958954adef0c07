"""Create spans and pass on W3C Trace Context; export by OTLP if an endpoint is set.

Without an exporter, spans record nothing and the SDK is not loaded, but every trace still has an id.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import Attributes

from agentchat.runtime.genai_attributes import ERROR_TYPE

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

_propagator = TraceContextTextMapPropagator()


class _State:
    """The provider that `configure` chose. Spans are created all over a process, so the module holds it."""

    provider: "TracerProvider | None" = None


def configure(service: str, endpoint: str | None, *, exporter: "SpanExporter | None" = None) -> None:
    """Export spans in batches to `endpoint` (OTLP over HTTP), or one by one to `exporter`, or not at all.

    `endpoint` is the collector's base address, such as http://127.0.0.1:4318.
    """
    shut_down()
    if endpoint or exporter:
        _State.provider = _build_provider(service, endpoint, exporter)


def shut_down() -> None:
    """Export what waits, for at most 5 s, and stop exporting."""
    provider, _State.provider = _State.provider, None
    if provider is not None:
        provider.force_flush(5000)
        provider.shutdown()


def start_span(
    name: str,
    *,
    context: Context | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
    attributes: Attributes = None,
    links: Sequence[trace.Link] | None = None,
) -> Span:
    """Start a span in the parent's trace, or in a new one. The caller ends it."""
    if _State.provider is not None:
        return _State.provider.get_tracer("agentchat").start_span(
            name, context, kind, attributes, links, record_exception=False, set_status_on_exception=False
        )
    parent = trace.get_current_span(context).get_span_context()
    if not parent.is_valid:
        parent = SpanContext(secrets.randbits(128) or 1, secrets.randbits(64) or 1, is_remote=False)
    return NonRecordingSpan(parent)


@contextmanager
def open_span(
    name: str,
    *,
    context: Context | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
    attributes: Attributes = None,
    links: Sequence[trace.Link] | None = None,
) -> Iterator[Span]:
    """Make a new span current in the block, and end it afterwards.

    An exception marks it as an error of the exception's class, unless the block has set a status itself. The
    exception's text is not recorded, since it may hold a user's text or a credential. Where nothing exports,
    the parent's span stands for its children.
    """
    if _State.provider is None and context is None:
        parent = trace.get_current_span()
        if parent.get_span_context().is_valid:
            yield parent
            return
    started = start_span(name, context=context, kind=kind, attributes=attributes, links=links)
    token = attach(trace.set_span_in_context(started))
    try:
        yield started
    except Exception as error:
        status = getattr(started, "status", None)  # only the SDK's spans have one
        if status is not None and status.is_unset:
            started.set_attribute(ERROR_TYPE, type(error).__qualname__)
            started.set_status(StatusCode.ERROR)
        raise
    finally:
        detach(token)
        started.end()


def open_trace(
    name: str, headers: Mapping[str, str] | None = None, attributes: Attributes = None
) -> AbstractContextManager[Span]:
    """Open a server span that starts its own trace.

    A traceparent in `headers` becomes a link, not the parent.
    """
    theirs = trace.get_current_span(extract(headers)).get_span_context()
    return open_span(
        name,
        context=Context(),
        kind=SpanKind.SERVER,
        attributes=attributes,
        links=[trace.Link(theirs)] if theirs.is_valid else None,
    )


def inject(headers: dict[str, str]) -> dict[str, str]:
    """Add the current span's W3C `traceparent` (and `tracestate`) to `headers`, and return them."""
    _propagator.inject(headers)
    return headers


def is_recording() -> bool:
    """Return True if the current span is recorded."""
    return trace.get_current_span().get_span_context().trace_flags.sampled


def extract(headers: Mapping[str, str] | None) -> Context:
    """Return the remote parent that `headers` name, or an empty context."""
    if not headers:
        return Context()
    return _propagator.extract({key.lower(): value for key, value in headers.items()}, Context())


def get_trace_id() -> str:
    """Return the current span's trace id, 32 hex digits; all zeros outside every span."""
    return format_trace_id(trace.get_current_span())


def format_trace_id(span: trace.Span) -> str:
    """Return a span's trace id, 32 hex digits."""
    return f"{span.get_span_context().trace_id:032x}"


def _build_provider(service: str, endpoint: str | None, exporter: "SpanExporter | None") -> "TracerProvider":
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
