"""Our own API (docs/change/specification.md): X-Api-Key, X-Agent-Id, a body with one message; the reply as
JSON or as server-sent events in the form that X-Stream-Form chooses.
"""

from typing import Any

from litestar import Request, post

from contracts import http, ids, sse
from directory.caller import AgentSummary, Caller
from gateway.access.auth import KEY, key_and_agent_of
from gateway.chat import chat_body
from gateway.chat.forms import STREAM_FORM, check_plan, default_form, form_of
from gateway.chat.launch_run import whole
from gateway.chat.run_request import RunRequest, RunRequester
from gateway.chat.start import ChatEndpoint, start
from gateway.gateway_services import Parts
from gateway.http.exchange import Exchange
from gateway.http.known_query import check_query
from gateway.http.problem_responses import Refusal, invalid
from gateway.openapi.described import described
from gateway.openapi.openapi_schemas import EVENT
from gateway.protocols import chat_examples
from gateway.runs.event_stream import EventStream


@described("unsupported_media_type", "message_too_large", "conversation_not_found", body=chat_body.BODY)
async def read(_parts: Parts, exchange: Exchange, requester: RunRequester) -> RunRequest:
    """The agent of the headers, and the body. Raises Refusal, ClientGone."""
    check_query(exchange)
    agent = _agent(requester.agent_id, requester.agent)
    content = await chat_body.read(exchange, requester.caller.plan.max_message_bytes)
    conversation_id = None if content.conversation_id is None else content.conversation_id.lower()
    if conversation_id is not None and not ids.is_uuid(conversation_id):
        raise Refusal("conversation_not_found")
    return RunRequest(
        form=requester.form,
        agent_id=agent.agent_id,
        message=content.message,
        streamed=requester.form in sse.FORMS,
        conversation_id=conversation_id,
        prompt=content.prompt,
    )


def _agent(agent_id: str | None, agent: AgentSummary | None) -> AgentSummary:
    """The agent. Raises Refusal: 400 for the header, 404 for the agent."""
    if agent_id is None:
        raise invalid("X-Agent-Id", "This header is required, once, and is the UUID of an agent.")
    if agent is None:
        raise Refusal("agent_not_found")
    return agent


@described("plan_upgrade_required", parameters=[STREAM_FORM])
def _stream_form(parts: Parts, exchange: Exchange, caller: Caller) -> str:
    form = form_of(exchange) or default_form(parts.stream_form)
    check_plan(form, caller)
    return form


_JSON = ChatEndpoint(credentials=key_and_agent_of, form=lambda *_: "json", read=read)
_STREAM = ChatEndpoint(credentials=key_and_agent_of, form=_stream_form, read=read)


@post(
    "/v1/chat",
    status_code=200,
    operation_id="chat",
    summary="Send a message, get the reply as JSON.",
    response_description="The saved reply.",
    security=[KEY],
    tags=["chat"],
)
@described(examples=chat_examples.REPLIES, stages=_JSON.stages)
async def chat(request: Request[Any, Any, Any]) -> http.ChatReply:
    """Wait for the whole reply."""
    started = await start(request, _JSON)
    finished, _ = await whole(started.run)
    return http.ChatReply(
        conversation_id=started.claim.conversation_id,
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
    security=[KEY],
    tags=["chat"],
)
@described(content={"text/event-stream": EVENT}, examples=chat_examples.STREAMS, stages=_STREAM.stages)
async def stream_chat(request: Request[Any, Any, Any]) -> EventStream:
    """The events as they come."""
    started = await start(request, _STREAM)
    claim, run = started.claim, started.run
    form = next(each for each in sse.FORMS if each == started.requested.form)
    encoder = sse.Encoder(form, claim.conversation_id, claim.trace_id)
    return EventStream(run, lambda: encoder.encode(run.take()))
