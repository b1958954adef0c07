"""A tracer whose spans tell that something failed and of what kind it was, and never its words.

An exception's text may hold what a model, a tool or a database said: a user's words, or a credential.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Span, StatusCode

from runtime.genai import ERROR_TYPE

_WORDLESS = {"record_exception": False, "set_status_on_exception": False}


class DiscreetTracer(trace.Tracer):
    """Starts the spans of `tracer`."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def start_span(self, name: str, *args: Any, **more: Any) -> Span:
        """A span that records no exceptions."""
        return self._tracer.start_span(name, *args, **(more | _WORDLESS))

    @contextmanager
    def start_as_current_span(  # type: ignore[override]  # the API's own kind is private
        self, name: str, *args: Any, **more: Any
    ) -> Iterator[Span]:
        """One that is current within, and ends as an error of the exception's class where one is raised."""
        with self._tracer.start_as_current_span(name, *args, **(more | _WORDLESS)) as span:
            try:
                yield span
            except Exception as error:
                if isinstance(span, ReadableSpan) and span.status.is_unset:
                    span.set_attribute(ERROR_TYPE, type(error).__qualname__)
                    span.set_status(StatusCode.ERROR)
                raise
