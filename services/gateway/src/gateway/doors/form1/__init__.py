"""Form 1 of POST /v1/chat/stream, which tells of sources. Its events: `contracts.sse`."""

from contracts import http
from contracts.examples import CONVERSATION, SOURCE, TRACE

ABOUT = "Form 1 has the events meta, sources (where retrieval ran), delta, done, error."
DELTAS = (http.DeltaEvent(content="It has "), http.DeltaEvent(content="shipped."))
ERROR = http.ErrorEvent(code="provider_timeout", message="The model provider did not answer in time")
_META = http.MetaEvent(conversation_id=CONVERSATION, trace_id=TRACE)
_DONE = http.DoneEvent(conversation_id=CONVERSATION, trace_id=TRACE)
EXAMPLES: dict[str, tuple[http.StreamEvent, ...]] = {
    "form 1": (_META, *DELTAS, _DONE),
    "form 1, with retrieval": (_META, http.SourcesEvent(sources=(SOURCE,)), *DELTAS, _DONE),
    "form 1, failed": (_META, DELTAS[0], ERROR),
}
