"""Our own API (interface specification): X-Api-Key, X-Agent-Id, a body with one message; the reply as
JSON or as server-sent events in the form that X-Stream-Form chooses.
"""

from typing import Any, Literal

from litestar import Request, Router, post
from litestar.handlers.base import BaseRouteHandler

from contracts import http, ids, sse, wire
from contracts.examples import CONVERSATION, MESSAGE, SOURCE, TOOL_CALL, TRACE
from contracts.values import Form
from directory.caller import Caller
from gateway.access.auth import KEY, check_agent, has_key_and_agent
from gateway.chat import chat_body
from gateway.chat.admitted_request import AdmittedRequest, admitted_request, within_run_limits
from gateway.chat.chat_body import ChatData
from gateway.chat.launch_run import RUN_REFUSALS, launch, whole
from gateway.chat.run_request import RunRequest
from gateway.http.exchange import Connection, Exchange
from gateway.http.problem_responses import Refusal, invalid
from gateway.http.query import known_query
from gateway.openapi.described import described, parameter
from gateway.openapi.openapi_schemas import EVENT
from gateway.runs.event_stream import EventStream

_FORM_HEADER = "X-Stream-Form"
STREAM_FORM = parameter(
    "header",
    _FORM_HEADER,
    "The form of the stream's events, 2 on some plans only; without it the deployment's.",
    enum=["1", "2"],
)
_FORMS: dict[bytes, sse.Form] = {b"1": "form1", b"2": "form2"}

REPLIES = {
    "text": http.ChatReply(conversation_id=CONVERSATION, message=MESSAGE),
    "with tools": http.ChatReply(conversation_id=CONVERSATION, message=MESSAGE, tool_calls=(TOOL_CALL,)),
}

_DELTAS = (http.DeltaEvent(content="It has "), http.DeltaEvent(content="shipped."))
_ERROR = http.ErrorEvent(code="provider_timeout", message="The model provider did not answer in time")
_META = http.MetaEvent(conversation_id=CONVERSATION, trace_id=TRACE)
_DONE = http.DoneEvent(conversation_id=CONVERSATION, trace_id=TRACE)
_START = http.StartEvent(conversation_id=CONVERSATION)
_EVENTS: dict[str, tuple[http.StreamEvent, ...]] = {
    "form 1": (_META, *_DELTAS, _DONE),
    "form 1, with retrieval": (_META, http.SourcesEvent(sources=(SOURCE,)), *_DELTAS, _DONE),
    "form 1, failed": (_META, _DELTAS[0], _ERROR),
    "form 2": (
        _START,
        http.ToolCallEvent(name=TOOL_CALL.name, input=TOOL_CALL.input),
        *_DELTAS,
        http.MessageDoneEvent(message=MESSAGE, tool_calls=(TOOL_CALL,)),
    ),
    "form 2, failed": (_START, _ERROR),
}

STREAMS = {name: b"".join(map(wire.encode_sse, events)).decode() for name, events in _EVENTS.items()}
"""As they are on the wire. Form 1 has sources, form 2 tools: see `contracts.sse`."""


def form_of(exchange: Exchange) -> sse.Form | None:
    """The form that is asked for; None where none is. Raises Refusal."""
    asked = exchange.header(_FORM_HEADER.lower().encode())
    if not asked:
        return None
    if len(asked) > 1 or asked[0] not in _FORMS:
        raise invalid(_FORM_HEADER, "This header must be 1 or 2, or be left out.")
    return _FORMS[asked[0]]


def default_form(number: Literal[1, 2]) -> sse.Form:
    """The form of streams whose request asks for none."""
    return _FORMS[b"%d" % number]


def check_plan(form: Form | None, caller: Caller) -> None:
    """Raises Refusal where the caller's plan does not have this form."""
    if form == "form2" and not caller.plan.form2_streaming:
        raise Refusal("plan_upgrade_required", f"The plan {caller.plan.name} has no streaming in form 2.")


@described("agent_not_found")
async def check_head(connection: Request[Any, Any, Any]) -> None:
    """Before the body is read: the query and the agent. Raises Refusal: 400, 404."""
    request = admitted_request(connection)
    await known_query(request)
    request.agent_id = check_agent(request.exchange).agent_id


@described("plan_upgrade_required", parameters=[STREAM_FORM])
async def has_form(connection: Connection, _: BaseRouteHandler) -> None:
    """Guard: the plan has the form of stream that is asked for. Raises Refusal: 400, 403."""
    request = admitted_request(connection)
    check_plan(_form_of(request), request.auth)


def _form_of(request: AdmittedRequest) -> sse.Form:
    return form_of(request.exchange) or default_form(request.services.stream_form)


def run_request(request: AdmittedRequest, body: http.ChatBody, form: str) -> RunRequest:
    """What the body asks of the agent in the headers. Raises Refusal: 413, 404."""
    chat_body.check_sizes(body, request.auth.plan.max_message_bytes)
    conversation_id = None if body.conversation_id is None else body.conversation_id.lower()
    if conversation_id is not None and not ids.is_uuid(conversation_id):
        raise Refusal("conversation_not_found")
    return RunRequest(
        form=form,
        agent_id=request.agent_id,
        message=body.message,
        streamed=form in sse.FORMS,
        calls_at_end=form != "form1",
        conversation_id=conversation_id,
        prompt=body.prompt,
    )


@post(
    "/v1/chat",
    status_code=200,
    operation_id="chat",
    summary="Send a message, get the reply as JSON.",
    response_description="The saved reply.",
)
@described(*RUN_REFUSALS, examples=REPLIES)
async def chat(request: AdmittedRequest, data: ChatData) -> http.ChatReply:
    claim, run = await launch(request, run_request(request, data, "json"))
    finished, _ = await whole(run)
    return http.ChatReply(
        conversation_id=claim.conversation_id,
        message=finished.message,
        tool_calls=finished.tool_calls or None,
    )


@post(
    "/v1/chat/stream",
    status_code=200,
    media_type="text/event-stream",
    operation_id="streamChat",
    summary="Send a message, get the reply as server-sent events.",
    description="Form 1 has the events meta, sources (where retrieval ran), delta, done, error. "
    "Form 2 has start, delta, tool_call, done (with the saved message and the calls' outputs), error.",
    response_description="The message is saved, and these are the events of its reply. The contents of the "
    "`delta` events, joined, are the reply; the last event is one `done` or one `error`.",
    guards=[has_form],
)
@described(*RUN_REFUSALS, content={"text/event-stream": EVENT}, examples=STREAMS)
async def stream_chat(request: AdmittedRequest, data: ChatData) -> EventStream:
    form = _form_of(request)
    claim, run = await launch(request, run_request(request, data, form))
    encoder = sse.Encoder(form, claim.conversation_id, claim.trace_id)
    return EventStream(run, lambda: encoder.encode(run.take()))


ROUTER = Router(
    "/",
    route_handlers=[chat, stream_chat],
    request_class=AdmittedRequest,
    guards=[has_key_and_agent, within_run_limits],
    before_request=check_head,
    security=[KEY],
    tags=["chat"],
    opt={"decode": chat_body.decode},
)
