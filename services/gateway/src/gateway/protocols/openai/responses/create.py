"""POST /openai/v1/responses: a message is sent, the response to it comes, at once or as events."""

from datetime import datetime
from functools import partial
from typing import Any

from litestar import post
from msgspec.structs import asdict, replace

from contracts.examples import CONVERSATION, TRACE
from contracts.updates import Broken
from conversations.claims.idempotency import Claim
from conversations.queries import shown_history
from gateway.chat import resume_run
from gateway.chat.admitted_request import AdmittedRequest
from gateway.chat.client_history import ClientHistory, as_shown, storable
from gateway.chat.launch_run import RUN_REFUSALS, ended, refused_by
from gateway.chat.run_request import RunRequest
from gateway.chat.start import start
from gateway.http.http_responses import JsonAnswer
from gateway.http.problem_responses import invalid
from gateway.openapi.described import described, event_of
from gateway.protocols.agent_address import CONVERSATION_ID
from gateway.protocols.openai.completion_body import hash_of
from gateway.protocols.openai.completions import CONVERSATION_KEY, admitted, agent_named, attempt_of
from gateway.protocols.openai.openai_headers import TASK, conversation_key_of, is_open_webui_task
from gateway.protocols.openai.responses import previous_response, wire
from gateway.protocols.openai.responses.items import (
    Reference,
    no_such_item,
    split_at_reference,
    verdicts_of,
)
from gateway.protocols.openai.responses.previous_response import ConversationPlace
from gateway.protocols.openai.responses.response_body import (
    CreateResponse,
    NamedConversation,
    ResponseData,
    check_fit,
    history_of,
)
from gateway.protocols.openai.responses.response_output import ResponseOutput, response_of
from gateway.protocols.openai.structured import schema_of, wanted_by
from gateway.runs.after_pause import PausePoint
from gateway.runs.event_stream import EventStream

CONTENT = {"application/json": wire.Response, "text/event-stream": event_of(*wire.EVENTS, named=True)}
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


async def _run_request(request: AdmittedRequest, body: CreateResponse) -> RunRequest:
    """What the body and the headers ask for. Raises Refusal, DatabaseUnavailable."""
    received, limit = await request.body(), request.auth.plan.max_message_bytes
    account_id, exchange = request.auth.account_id, request.exchange
    check_fit(body)
    verdicts = verdicts_of(body.input)
    reference, first, new = split_at_reference(body.input)
    if verdicts:
        wanted_by(body.text.format if body.text else None, "text.format")
        agent_id = await agent_named(request, storable(body.model))
        return _asked(body, agent_id, verdicts=verdicts)

    def read() -> tuple[ClientHistory, str]:
        return history_of(body, new, first, limit), hash_of(received)

    given, body_hash = await request.in_turn(read)
    wanted = wanted_by(body.text.format if body.text else None, "text.format")
    is_task = is_open_webui_task(exchange, given)
    key = None if is_task else conversation_key_of(exchange)
    agent_id = await agent_named(request, storable(body.model))
    named = _conversation_of(body) or body.previous_response_id or (reference and reference.response)
    name = key or "" if named is None else f"\n{named}"  # no key of a header has a line break
    hash_of_texts = partial(shown_history.hash_of, account_id, agent_id, name)
    requested = _asked(
        body,
        agent_id,
        unlisted=is_task or body.store is False,
        attempted=attempt_of(request, body_hash, named or key),
        is_task=is_task,
        output_schema=await schema_of(request.services.pool, account_id, agent_id, wanted),
    )
    if named is None:
        return await as_shown(request, requested, given, key, hash_of_texts)
    all_new = "\n\n".join(each.content for each in given.messages)
    requested = await as_shown(request, requested, given, None, hash_of_texts)
    return replace(requested, message=all_new, **asdict(await _place(request, body, reference)))


def _asked(body: CreateResponse, agent_id: str, **fields: Any) -> RunRequest:
    model = storable(body.model)
    return RunRequest(
        form="openai_responses", agent_id=agent_id, model=model, streamed=True, outputs=True, **fields
    )


def _conversation_of(body: CreateResponse) -> str | None:
    named = body.conversation
    return named.id if isinstance(named, NamedConversation) else named


async def _place(
    request: AdmittedRequest, body: CreateResponse, reference: Reference | None
) -> ConversationPlace:
    if (conversation := _conversation_of(body)) is not None:
        return previous_response.in_conversation(conversation)
    previous = body.previous_response_id
    unknown = invalid("previous_response_id", "There is no such response.")
    if previous is None:
        assert reference is not None
        previous, unknown = reference.response, no_such_item(reference.field)
    return await previous_response.place_after(request.services, request.auth, previous, unknown)


@post(
    "/responses",
    status_code=200,
    operation_id="createResponse",
    summary="Send a message, get the response.",
    description="See docs/integrate/openai-responses.md for what is ignored and what is refused.",
    response_description="The response; as events where `stream` is true, of which the last is "
    "`response.completed`, `response.incomplete`, `response.failed` or `error`.",
    request_class=AdmittedRequest,
    guards=[admitted],
)
@described(
    *("agent_not_found", "conversation_too_large", *RUN_REFUSALS, *resume_run.REFUSALS),
    parameters=[CONVERSATION_KEY, TASK],
    content=CONTENT,
    headers=CONVERSATION_ID,
    examples={"text": _EXAMPLE},
)
async def create_response(
    request: AdmittedRequest, data: ResponseData
) -> JsonAnswer[wire.Response] | EventStream:
    """The response, as soon as it is complete, as it comes, or as soon as it has begun."""
    started = await start(request, await _run_request(request, data))
    run, after_pause = started.run, started.after_pause
    request.exchange.headers.append((b"x-conversation-id", started.claim.conversation_id.encode()))
    begun = _begun(data, started.claim, None if after_pause is None else after_pause.wait)
    if data.stream:
        output = ResponseOutput(begun, after_pause=after_pause)
        return EventStream(run, lambda: output.encode(run.take()))
    if data.background:
        return JsonAnswer(begun)
    updates = await ended(run)
    match updates[-1]:
        case Broken(code=code) as last if code != "approval_required":
            raise refused_by(last)
    return JsonAnswer(response_of(begun, updates, after_pause))


def _begun(body: CreateResponse, claim: Claim, after_pause: PausePoint | None) -> wire.Response:
    return wire.Response(
        id=previous_response.response_id(claim.trace_id, after_pause),
        created_at=int(datetime.fromisoformat(claim.now).timestamp()),
        status="in_progress",
        model=storable(body.model),
        conversation=wire.ConversationRef(id=previous_response.shown_id(claim.conversation_id)),
        previous_response_id=body.previous_response_id,
        background=bool(body.background),
    )
