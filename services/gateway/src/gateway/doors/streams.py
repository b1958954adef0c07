"""POST /v1/chat/stream: the reply as server-sent events, in the form that X-Stream-Form chooses."""

from typing import Any

from litestar import Request, post

from contracts import sse, wire
from directory.caller import Caller
from gateway.access.auth import KEY, key_and_agent_of
from gateway.chat.forms import STREAM_FORM, check_plan, default_form, form_of
from gateway.chat.start import Way, start
from gateway.doors import form1, form2, own
from gateway.http.exchange import Exchange
from gateway.openapi.described import described
from gateway.openapi.schemas import EVENT
from gateway.parts import Parts
from gateway.runs.event_stream import EventStream

_EXAMPLES = {
    name: b"".join(map(wire.encode_sse, events)).decode()
    for name, events in {**form1.EXAMPLES, **form2.EXAMPLES}.items()
}


@described("plan_upgrade_required", parameters=[STREAM_FORM])
def _form(parts: Parts, exchange: Exchange, caller: Caller) -> str:
    form = form_of(exchange) or default_form(parts.stream_form)
    check_plan(form, caller)
    return form


_WAY = Way(credentials=key_and_agent_of, form=_form, read=own.read)


@post(
    "/v1/chat/stream",
    status_code=200,
    media_type="text/event-stream",
    operation_id="streamChat",
    summary="Send a message, get the reply as server-sent events.",
    description=f"{form1.ABOUT} {form2.ABOUT}",
    response_description="The message is saved, and these are the events of its reply. The contents of the "
    "`delta` events, joined, are the reply; the last event is one `done` or one `error`.",
    security=[KEY],
    tags=["chat"],
)
@described(content={"text/event-stream": EVENT}, examples=_EXAMPLES, stages=_WAY.stages)
async def stream_chat(request: Request[Any, Any, Any]) -> EventStream:
    """The events as they come."""
    started = await start(request, _WAY)
    claim, run = started.claim, started.run
    form = next(each for each in sse.FORMS if each == started.ask.form)
    encoder = sse.Encoder(form, claim.conversation_id, claim.trace_id)
    return EventStream(run, lambda: encoder.encode(run.take()))
