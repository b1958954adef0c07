"""The span of a model call, by the GenAI semantic conventions; no text of anybody's is in it."""

import contextlib
from collections.abc import Iterator

from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from orchestrator.models import Meter, ModelCall, ModelFailure, Reply
from runtime import genai, telemetry


@contextlib.contextmanager
def opened(provider: str, call: ModelCall, meter: Meter) -> Iterator[Span]:
    """`chat <model>` around one call, with what it cost and how it failed."""
    before = meter.usage
    with telemetry.tracer().start_as_current_span(
        f"{genai.CHAT} {call.model}",
        kind=SpanKind.CLIENT,
        attributes={
            genai.OPERATION_NAME: genai.CHAT,
            genai.PROVIDER_NAME: provider,
            genai.REQUEST_MODEL: call.model,
            genai.REQUEST_STREAM: True,
        },
        record_exception=False,
    ) as span:
        try:
            yield span
        except ModelFailure as failure:
            span.set_attribute(genai.ERROR_TYPE, failure.kind)
            span.set_status(Status(StatusCode.ERROR, failure.code))
            raise
        finally:
            spent = meter.usage
            cached = spent.cache_read_tokens - before.cache_read_tokens
            created = spent.cache_creation_tokens - before.cache_creation_tokens
            fresh = spent.input_tokens - before.input_tokens
            span.set_attribute(genai.USAGE_INPUT_TOKENS, fresh + cached + created)
            span.set_attribute(genai.USAGE_OUTPUT_TOKENS, spent.output_tokens - before.output_tokens)
            span.set_attribute(genai.USAGE_CACHE_READ_INPUT_TOKENS, cached)
            span.set_attribute(genai.USAGE_CACHE_CREATION_INPUT_TOKENS, created)


def describe(span: Span, reply: Reply) -> None:
    """What is known once the reply is whole."""
    span.set_attribute(genai.RESPONSE_ID, reply.message_id)
    span.set_attribute(genai.RESPONSE_MODEL, reply.model)
    span.set_attribute(genai.RESPONSE_FINISH_REASONS, [reply.stop_reason])
