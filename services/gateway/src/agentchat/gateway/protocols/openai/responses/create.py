"""POST /openai/v1/responses: a message is sent, the response to it comes, at once or as events."""

from datetime import datetime
from functools import partial
from typing import Any

from litestar import Response, post
from msgspec.structs import asdict, replace

from agentchat.contracts.updates import Broken
from agentchat.conversations.claims.idempotency import Claim
from agentchat.conversations.queries import find_by_history
from agentchat.gateway.access.checks import may_chat_as_openai
from agentchat.gateway.http.json_request import JsonRequest
from agentchat.gateway.http.refusals import invalid, storable
from agentchat.gateway.protocols.chat import max_message_bytes
from agentchat.gateway.protocols.client_history import place_in_conversation
from agentchat.gateway.protocols.openai.completions import ConversationKey
from agentchat.gateway.protocols.openai.openai_headers import (
    agent_of_model,
    conversation_key_of,
    is_open_webui_task,
)
from agentchat.gateway.protocols.openai.responses import previous_response, wire
from agentchat.gateway.protocols.openai.responses.items import (
    Reference,
    no_such_item,
    split_at_reference,
    verdicts_of,
)
from agentchat.gateway.protocols.openai.responses.previous_response import ConversationPlace
from agentchat.gateway.protocols.openai.responses.response_body import (
    CreateResponse,
    NamedConversation,
    ResponseData,
    check_fit,
    history_of,
)
from agentchat.gateway.protocols.openai.responses.response_output import ResponseOutput, response_of
from agentchat.gateway.protocols.openai.structured import schema_of, wanted_by
from agentchat.gateway.runs.after_pause import PausePoint
from agentchat.gateway.runs.event_stream import EventStream
from agentchat.gateway.runs.resume_run import start_or_resume_run
from agentchat.gateway.runs.run_request import RunRequest, ViewKind
from agentchat.gateway.runs.start_run import refusal_of_run
from agentchat.gateway.runs.wait_for_reply import wait_for_end
from agentchat.gateway.services import services_of


@post(
    "/openai/v1/responses",
    status_code=200,
    operation_id="createResponse",
    summary="Send a message, get the response.",
    guards=[may_chat_as_openai],
)
async def create_response(
    request: JsonRequest,
    data: ResponseData,
    conversation_key: ConversationKey = None,  # noqa: ARG001 - read by `conversation_key_of`
) -> Response[wire.Response]:
    """As events where `stream` is true, of which the last is `response.completed`, `response.incomplete`,
    `response.failed` or `error`; with `background` as soon as it has begun.

    See docs/integrate/openai-responses.md for what is ignored and what is refused.
    """
    started = await start_or_resume_run(request, await _run_request(request, data))
    run, after_pause = started.run, started.after_pause
    request.context.add_header("x-conversation-id", started.claim.conversation_id)
    begun = _begun_response(data, started.claim, None if after_pause is None else after_pause.wait)
    if data.stream:
        output = ResponseOutput(begun, after_pause=after_pause)
        return EventStream(run, lambda: output.encode(run.take()))
    if data.background:
        return Response(begun)
    updates = await wait_for_end(request, run)
    match updates[-1]:
        case Broken(code=code) as last if code != "approval_required":
            raise refusal_of_run(last)
    return Response(response_of(begun, updates, after_pause))


create_in_azure = post(
    "/openai/responses", status_code=200, guards=[may_chat_as_openai], include_in_schema=False
)(create_response.fn)


async def _run_request(request: JsonRequest, body: CreateResponse) -> RunRequest:
    """Build what the body and the headers ask for. Raises Refusal, DatabaseUnavailable."""
    pool, account_id = services_of(request).pool, request.auth.account_id
    check_fit(body)
    verdicts = verdicts_of(body.input)
    reference, first, new = split_at_reference(body.input)
    wanted = wanted_by(body.text.format if body.text else None, "text.format")
    if verdicts:
        agent_id = await agent_of_model(request, storable(body.model))
        return _responses_request(body, agent_id, verdicts=verdicts)
    shown = history_of(body, new, first, max_message_bytes(request))
    is_task = is_open_webui_task(request.headers, shown)
    key = None if is_task else conversation_key_of(request.headers)
    agent_id = await agent_of_model(request, storable(body.model))
    named = _conversation_of(body) or body.previous_response_id or (reference and reference.response)
    name = key or "" if named is None else f"\n{named}"  # no key of a header has a line break
    hash_of = partial(find_by_history.hash_shown, account_id, agent_id, name)
    run_request = _responses_request(
        body,
        agent_id,
        unlisted=is_task or body.store is False,
        is_task=is_task,
        output_schema=await schema_of(pool, account_id, agent_id, wanted),
    )
    if named is None:
        return await place_in_conversation(request, run_request, shown, key, hash_of)
    run_request = await place_in_conversation(request, run_request, shown, None, hash_of)
    all_new = "\n\n".join(each.content for each in shown.messages)
    return replace(run_request, message=all_new, **asdict(await _place(request, body, reference)))


def _responses_request(body: CreateResponse, agent_id: str, **fields: Any) -> RunRequest:
    return RunRequest(
        form="openai_responses",
        agent_id=agent_id,
        model=storable(body.model),
        view=ViewKind(outputs=True),
        **fields,
    )


def _conversation_of(body: CreateResponse) -> str | None:
    named = body.conversation
    return named.id if isinstance(named, NamedConversation) else named


async def _place(
    request: JsonRequest, body: CreateResponse, reference: Reference | None
) -> ConversationPlace:
    if (conversation := _conversation_of(body)) is not None:
        return previous_response.in_conversation(conversation)
    previous = body.previous_response_id
    unknown = invalid("previous_response_id", "There is no such response.")
    if previous is None:
        assert reference is not None
        previous, unknown = reference.response, no_such_item(reference.field)
    return await previous_response.place_after(request, previous, unknown)


def _begun_response(body: CreateResponse, claim: Claim, after_pause: PausePoint | None) -> wire.Response:
    return wire.Response(
        id=previous_response.response_id(claim.trace_id, after_pause),
        created_at=int(datetime.fromisoformat(claim.now).timestamp()),
        status="in_progress",
        model=storable(body.model),
        conversation=wire.ConversationRef(id=previous_response.shown_id(claim.conversation_id)),
        previous_response_id=body.previous_response_id,
        background=bool(body.background),
    )
