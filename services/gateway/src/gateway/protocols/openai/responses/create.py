"""POST /openai/v1/responses: a message is sent, the response to it comes, at once or as events."""

from datetime import datetime
from functools import partial
from typing import Any

import msgspec
from litestar import Request, post
from msgspec.structs import replace

from contracts.examples import CONVERSATION, TRACE
from contracts.updates import Broken
from conversations.claims.idempotency import Claim
from conversations.queries import shown_history
from gateway.chat import resume_run, shown
from gateway.chat.launch_run import ended, refused_by
from gateway.chat.run_request import RunRequest, RunRequester
from gateway.chat.start import ChatEndpoint, start
from gateway.gateway_services import Parts
from gateway.http import strict_json
from gateway.http.exchange import Exchange, of
from gateway.http.http_responses import JsonAnswer
from gateway.http.problem_responses import Refusal, invalid
from gateway.openapi.described import described
from gateway.protocols.agent_address import CONVERSATION_ID
from gateway.protocols.openai import open_webui
from gateway.protocols.openai.completion_reading import attempt_of
from gateway.protocols.openai.completions import credentials
from gateway.protocols.openai.completions_openapi import CONVERSATION_KEY, SECURITY, TAG
from gateway.protocols.openai.openai_headers import again, conversation_key_of
from gateway.protocols.openai.responses import previous_response, response_body, wire
from gateway.protocols.openai.responses.items import no_such_item
from gateway.protocols.openai.responses.previous_response import ConversationPlace
from gateway.protocols.openai.responses.response_output import ResponseOutput, response_of
from gateway.protocols.openai.responses.responses_openapi import BODY, CONTENT
from gateway.protocols.openai.structured import schema_of
from gateway.runs.after_pause import PausePoint
from gateway.runs.event_stream import EventStream

_EXAMPLE = wire.Response(
    id=previous_response.response_id(TRACE),
    created_at=1795253400,
    status="completed",
    model="Shop assistant",
    conversation=wire.ConversationRef(id=previous_response.shown_id(CONVERSATION)),
    output=(
        wire.MessageItem(
            id=f"msg_{TRACE}_1", status="completed", content=(wire.OutputText(text="It has shipped."),)
        ),
    ),
    usage=wire.ResponseUsage(
        input_tokens=412,
        input_tokens_details=wire.InputDetails(cached_tokens=0, cache_write_tokens=0),
        output_tokens=57,
        total_tokens=469,
    ),
)


class ResponseRunRequest(RunRequest, frozen=True, kw_only=True):
    """What is asked; `model` is as it was named. `background`: it is answered once it has begun."""

    model: str
    background: bool
    as_events: bool
    previous: str | None


@described(
    *("agent_not_found", "conversation_not_found", "unsupported_media_type", "message_too_large"),
    *("conversation_busy", "conversation_too_large"),
    *resume_run.REFUSALS,
    parameters=[CONVERSATION_KEY, open_webui.TASK],
    body=BODY,
)
async def _read(parts: Parts, exchange: Exchange, requester: RunRequester) -> ResponseRunRequest:
    """Raises Refusal, ClientGone, DatabaseUnavailable."""
    caller = requester.caller
    limit = caller.plan.max_message_bytes
    given = await strict_json.read_json(exchange, partial(response_body.parse, max_message_bytes=limit))
    is_task = given.shown is not None and open_webui.is_task(exchange, given.shown)
    key = None if is_task else conversation_key_of(exchange)
    agent_id = await parts.agent_names.called(caller.account_id, given.model)
    if agent_id is None:
        raise Refusal("agent_not_found")
    asked = partial(
        ResponseRunRequest,
        form=requester.form,
        agent_id=agent_id,
        model=given.model,
        background=given.background,
        as_events=given.streamed,
        previous=given.previous,
        streamed=True,
        outputs=True,
    )
    if given.shown is None:
        return asked(verdicts=given.verdicts)
    reference = given.reference
    named = given.conversation or given.previous or (reference and reference.response)
    name = key or "" if named is None else f"\n{named}"  # no key of a header has a line break
    hash_of = partial(shown_history.hash_of, caller.account_id, agent_id, name)
    all_new = "\n\n".join(each.content for each in given.shown.messages)
    requested = asked(
        message=given.shown.message if named is None else all_new,
        unlisted=is_task or not given.stored,
        instructions=given.shown.instructions,
        shown_sha256=hash_of(given.shown.digests.messages),
        attempted=attempt_of(exchange, requester, given.request, named or key),
        is_task=is_task,
        output_schema=await schema_of(parts.pool, caller.account_id, agent_id, given.wanted),
    )
    if named is not None:
        place = await _place(parts, requester, given)
        return replace(requested, **msgspec.structs.asdict(place))
    requested = replace(requested, history=given.shown.history)
    if key is None:
        return requested
    return await shown.found(parts.pool, requested, given.shown, caller.account_id, key, hash_of)


async def _place(
    parts: Parts, requester: RunRequester, given: response_body.ResponseRequest
) -> ConversationPlace:
    if given.conversation is not None:
        return previous_response.in_conversation(given.conversation)
    if given.reference is not None:
        unknown = no_such_item(given.reference.field)
        return await previous_response.behind(parts, requester.caller, given.reference.response, unknown)
    assert given.previous is not None
    unknown = invalid("previous_response_id", "There is no such response.")
    return await previous_response.behind(parts, requester.caller, given.previous, unknown)


_ENDPOINT = ChatEndpoint(
    credentials=credentials, is_retry=again, form=lambda *_: "openai_responses", read=_read
)


@post(
    "/openai/v1/responses",
    status_code=200,
    operation_id="createResponse",
    summary="Send a message, get the response.",
    description="See docs/integrate/openai-responses.md for what is ignored and what is refused.",
    response_description="The response; as events where `stream` is true, of which the last is "
    "`response.completed`, `response.incomplete`, `response.failed` or `error`.",
    security=[SECURITY],
    tags=[TAG["name"]],
)
@described(content=CONTENT, headers=CONVERSATION_ID, examples={"text": _EXAMPLE}, stages=_ENDPOINT.stages)
async def create_response(request: Request[Any, Any, Any]) -> JsonAnswer[wire.Response] | EventStream:
    """The response, as soon as it is whole, as it comes, or as soon as it has begun."""
    started = await start(request, _ENDPOINT)
    requested, run = started.requested, started.run
    of(request.scope).headers.append((b"x-conversation-id", started.claim.conversation_id.encode()))
    behind = started.behind
    begun = _begun(requested, started.claim, None if behind is None else behind.wait)
    if requested.as_events:
        output = ResponseOutput(begun, behind=behind)
        return EventStream(run, lambda: output.encode(run.take()))
    if requested.background:
        return JsonAnswer(begun)
    updates = await ended(run)
    match updates[-1]:
        case Broken(code=code) as last if code != "approval_required":
            raise refused_by(last)
    return JsonAnswer(response_of(begun, updates, behind))


def _begun(requested: ResponseRunRequest, claim: Claim, behind: PausePoint | None) -> wire.Response:
    return wire.Response(
        id=previous_response.response_id(claim.trace_id, behind),
        created_at=int(datetime.fromisoformat(claim.now).timestamp()),
        status="in_progress",
        model=requested.model,
        conversation=wire.ConversationRef(id=previous_response.shown_id(claim.conversation_id)),
        previous_response_id=requested.previous,
        background=requested.background,
    )
