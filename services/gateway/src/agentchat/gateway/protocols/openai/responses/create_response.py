"""Answer a message with a response: POST /openai/v1/responses."""

from datetime import datetime
from functools import partial
from typing import Any

from litestar import Response, post
from msgspec.structs import asdict, replace

from agentchat.contracts.ownership import build_scope
from agentchat.contracts.updates import Broken
from agentchat.conversations.idempotency.idempotency_keys import Claim
from agentchat.conversations.queries import find_by_history
from agentchat.gateway.access.checks import may_chat_as_openai
from agentchat.gateway.access.on_busy_header import OnBusyHeader
from agentchat.gateway.attachments.requested_attachment import check_count
from agentchat.gateway.http.problems import build_field_refusal, replace_nul
from agentchat.gateway.http.request_context import MAX_FILES_BODY_BYTES, JsonRequest
from agentchat.gateway.protocols.chat import get_max_message_bytes
from agentchat.gateway.protocols.client_history import place_in_conversation, take_new_files
from agentchat.gateway.protocols.openai.completions import ConversationKey
from agentchat.gateway.protocols.openai.function_tools import read_client_functions
from agentchat.gateway.protocols.openai.openai_headers import (
    find_agent_of_model,
    is_open_webui_task,
    read_conversation_key,
)
from agentchat.gateway.protocols.openai.responses import previous_response, response_types
from agentchat.gateway.protocols.openai.responses.input_items import (
    Reference,
    check_no_outputs,
    make_unknown_item,
    read_function_outputs,
    read_verdicts,
    split_at_reference,
)
from agentchat.gateway.protocols.openai.responses.previous_response import ConversationPlace
from agentchat.gateway.protocols.openai.responses.response_body import (
    FIELDS,
    CreateResponse,
    NamedConversation,
    ResponseData,
    check_fit,
    read_history,
)
from agentchat.gateway.protocols.openai.responses.response_output import ResponseOutput, build_response
from agentchat.gateway.protocols.openai.structured_output import (
    choose_schema,
    read_output_function,
    read_wanted_format,
)
from agentchat.gateway.protocols.run_options import choose_parameters, read_options
from agentchat.gateway.runs.after_pause import PausePoint
from agentchat.gateway.runs.conversation_labels import check_new_pairs
from agentchat.gateway.runs.event_stream import EventStream, build_run_refusal, wait_for_end
from agentchat.gateway.runs.resume_paused_run import submit_or_resume
from agentchat.gateway.runs.run_request import RunRequest, ViewKind


@post(
    "/responses",
    status_code=200,
    request_max_body_size=MAX_FILES_BODY_BYTES,
    operation_id="createResponse",
    summary="Send a message, get the response.",
    guards=[may_chat_as_openai],
)
async def create_response(
    request: JsonRequest,
    data: ResponseData,
    conversation_key: ConversationKey = None,  # noqa: ARG001 - read by `read_conversation_key`,
    on_busy: OnBusyHeader = None,  # noqa: ARG001 - read by `submit_request`
) -> Response[response_types.Response]:
    """Return the response: as JSON, as events if `stream` is true, at once if `background` is true.

    The last event is `response.completed`, `response.incomplete`, `response.failed` or `error`. See
    docs/integrate/openai-responses.md for what is ignored and what is refused.
    """
    started = await submit_or_resume(request, await _run_request(request, data))
    run, after_pause = started.run, started.after_pause
    function = read_output_function(data.tools, data.tool_choice)
    name = None if function is None else function.name
    begun = _build_begun_response(data, started.claim, None if after_pause is None else after_pause.wait)
    if data.stream:
        output = ResponseOutput(begun, after_pause=after_pause, function=name)
        return EventStream(run, lambda: output.encode(run.take()))
    if data.background:
        return Response(begun)
    updates = await wait_for_end(request, run)
    match updates[-1]:
        case Broken(code=code) as last if code not in ("approval_required", "client_tools_required"):
            raise build_run_refusal(last)
    return Response(build_response(begun, updates, after_pause, name))


async def _run_request(request: JsonRequest, body: CreateResponse) -> RunRequest:
    """Build what the body and the headers ask for. Raises Refusal, DatabaseUnavailable."""
    pool, account_id = request.services.pool, request.auth.account_id
    check_fit(body)
    verdicts = read_verdicts(body.input)
    wanted = read_wanted_format(body.text.format if body.text else None, "text.format")
    if verdicts:
        agent_id = await find_agent_of_model(request, replace_nul(body.model))
        return _build_run_request(body, agent_id, verdicts=verdicts)
    function = read_output_function(body.tools, body.tool_choice)
    name = None if function is None else function.name
    client_tools = read_client_functions(request, body.tools, body.tool_choice, function)
    if results := read_function_outputs(body.input, name):
        agent_id = await find_agent_of_model(request, replace_nul(body.model))
        return _build_run_request(body, agent_id, tool_results=results)
    reference, first, new = split_at_reference(body.input)
    wanted = wanted if function is None else function.wanted
    named = (
        _read_conversation_id(body)
        or body.previous_response_id
        or (reference and (reference.response or reference.approval))
    )
    if named is not None:
        check_no_outputs(new, first)
    key = read_conversation_key(request.headers)
    most = get_max_message_bytes(request)
    shown = read_history(body, new, first, most, name, keeps_client_calls=named is None and key is None)
    is_task = is_open_webui_task(request.headers, shown)
    key = None if is_task else key
    agent_id = await find_agent_of_model(request, replace_nul(body.model))
    thread = key or "" if named is None else f"\n{named}"  # no key of a header has a line break
    hash_of = partial(find_by_history.hash_shown, build_scope(request.auth), agent_id, thread)
    run_request = _build_run_request(
        body,
        agent_id,
        unlisted=is_task or body.store is False,
        is_task=is_task,
        output_schema=await choose_schema(pool, account_id, agent_id, wanted),
        parameters=await choose_parameters(request, agent_id, body.read_parameters(), FIELDS),
        metadata=check_new_pairs(body.metadata or {}),
        **read_options(body),
        **({} if is_task else client_tools),
    )
    if named is None:
        return await place_in_conversation(request, run_request, shown, key, hash_of)
    run_request = await place_in_conversation(request, run_request, shown, None, hash_of)
    all_new = "\n\n".join(filter(None, (each.content for each in shown.messages)))
    files = take_new_files(shown.attachments, 0)
    check_count(files)
    place = asdict(await _place(request, body, reference))
    return replace(run_request, message=all_new, attachments=files, **place)


def _build_run_request(body: CreateResponse, agent_id: str, **fields: Any) -> RunRequest:
    return RunRequest(
        form="openai_responses",
        agent_id=agent_id,
        requested_model=replace_nul(body.model),
        view=ViewKind(outputs=True, reasoning=True),
        **fields,
    )


def _read_conversation_id(body: CreateResponse) -> str | None:
    named = body.conversation
    return named.id if isinstance(named, NamedConversation) else named


async def _place(
    request: JsonRequest, body: CreateResponse, reference: Reference | None
) -> ConversationPlace:
    if (conversation := _read_conversation_id(body)) is not None:
        return previous_response.locate_in_conversation(conversation)
    previous = body.previous_response_id
    unknown = build_field_refusal("previous_response_id", "There is no such response.")
    if previous is None:
        assert reference is not None
        previous, unknown = reference.response, make_unknown_item(reference.field)
        if reference.approval:
            previous = await previous_response.find_response_of_approval(request, reference.approval, unknown)
    return await previous_response.place_after(request, previous, unknown)


def _build_begun_response(
    body: CreateResponse, claim: Claim, after_pause: PausePoint | None
) -> response_types.Response:
    return response_types.Response(
        id=previous_response.build_response_id(claim.trace_id, after_pause),
        created_at=int(datetime.fromisoformat(claim.now).timestamp()),
        status="in_progress",
        model=replace_nul(body.model),
        conversation=response_types.ConversationRef(
            id=previous_response.encode_conversation_id(claim.conversation_id)
        ),
        previous_response_id=body.previous_response_id,
        background=bool(body.background),
    )
