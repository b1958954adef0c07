"""Answer a chat completion: POST /openai/v1/chat/completions."""

from datetime import datetime
from functools import partial
from typing import Annotated

from litestar import Response, post
from litestar.params import HeaderParameter

from agentchat.contracts.ownership import build_scope
from agentchat.conversations.queries import find_by_history
from agentchat.gateway.access.checks import may_chat_as_openai
from agentchat.gateway.access.on_busy_header import OnBusyHeader
from agentchat.gateway.http.problems import replace_nul
from agentchat.gateway.http.request_context import MAX_FILES_BODY_BYTES, JsonRequest
from agentchat.gateway.protocols.chat import get_max_message_bytes
from agentchat.gateway.protocols.client_history import place_in_conversation
from agentchat.gateway.protocols.openai import completion_types
from agentchat.gateway.protocols.openai.completion_answers import (
    CompletionChunks,
    build_completion,
    join_text,
)
from agentchat.gateway.protocols.openai.completion_body import (
    ChatCompletion,
    CompletionData,
    check_fit,
    read_messages,
    read_tool_results,
)
from agentchat.gateway.protocols.openai.function_tools import read_client_functions
from agentchat.gateway.protocols.openai.openai_headers import (
    find_agent_of_model,
    is_open_webui_task,
    read_conversation_key,
)
from agentchat.gateway.protocols.openai.structured_output import (
    choose_schema,
    read_output_function,
    read_wanted_format,
)
from agentchat.gateway.protocols.run_options import choose_parameters, read_options
from agentchat.gateway.runs.conversation_labels import check_new_pairs
from agentchat.gateway.runs.event_stream import EventStream, wait_for_reply
from agentchat.gateway.runs.resume_paused_run import submit_or_resume
from agentchat.gateway.runs.return_results import check_no_run_waits
from agentchat.gateway.runs.run_request import RunRequest, ViewKind

ConversationKey = Annotated[
    str | None,
    HeaderParameter(
        name="X-Conversation-Id",
        description="Your own name for the conversation. Under it the history that you send finds what the "
        "agent did in it; without it each request is a conversation of its own.",
    ),
]


@post(
    "/chat/completions",
    status_code=200,
    request_max_body_size=MAX_FILES_BODY_BYTES,
    operation_id="complete",
    summary="Send a conversation, get its next message.",
    guards=[may_chat_as_openai],
)
async def complete(
    request: JsonRequest,
    data: CompletionData,
    conversation_key: ConversationKey = None,  # noqa: ARG001 - read by `read_conversation_key`,
    on_busy: OnBusyHeader = None,  # noqa: ARG001 - read by `submit_request`
) -> Response[completion_types.Completion]:
    """Return the next message; as chunks if `stream` is true, the last of them `[DONE]` or an error.

    See docs/integrate/openai.md for what is ignored and what is refused.
    """
    function = read_output_function(data.tools, data.tool_choice)
    name = None if function is None else function.name
    model = replace_nul(request.path_params.get("deployment") or data.model)
    started = await submit_or_resume(request, await _run_request(request, data, model))
    claim, run = started.claim, started.run
    completion_id = f"chatcmpl-{claim.trace_id}"
    created = int(datetime.fromisoformat(claim.now).timestamp())
    if data.stream:
        include_usage = data.stream_options is not None and bool(data.stream_options.include_usage)
        chunks = CompletionChunks(
            completion_id, model, created, claim.conversation_id, include_usage=include_usage, function=name
        )
        return EventStream(run, lambda: chunks.encode(run.take()))
    last, updates = await wait_for_reply(request, run)
    text = None if started.after_pause is None else join_text(updates)
    return Response(build_completion(last, updates, completion_id, model, created, name, text))


async def _run_request(request: JsonRequest, body: ChatCompletion, model: str) -> RunRequest:
    """Build what the body and the headers ask for. Raises Refusal, DatabaseUnavailable."""
    pool, account_id = request.services.pool, request.auth.account_id
    check_fit(body)
    function = read_output_function(body.tools, body.tool_choice)
    name = None if function is None else function.name
    client_tools = read_client_functions(request, body.tools, body.tool_choice, function)
    view = ViewKind(streaming=bool(body.stream), calls_at_end=False, reasoning=True)
    if results := read_tool_results(body.messages, name):
        agent_id = await find_agent_of_model(request, model)
        return RunRequest(form="openai", agent_id=agent_id, view=view, tool_results=results)
    key = read_conversation_key(request.headers)
    messages = read_messages(body.messages, "messages", name, keeps_client_calls=key is None)
    shown = messages.build_history("messages", get_max_message_bytes(request))
    if key is not None:
        await check_no_run_waits(request, read_tool_results(body.messages[:-1], name), "messages")
    wanted = read_wanted_format(body.response_format, "response_format")
    wanted = wanted if function is None else function.wanted
    is_task = is_open_webui_task(request.headers, shown)
    if is_task:
        client_tools = {}
    key = None if is_task else key
    if client_tools.get("client_tools"):
        view = view._replace(streaming=True)  # only the pieces show which text came before a call
    agent_id = await find_agent_of_model(request, model)
    limit = "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens"
    run_request = RunRequest(
        form="openai",
        agent_id=agent_id,
        requested_model=model,
        view=view,
        unlisted=key is None,
        is_task=is_task,
        output_schema=await choose_schema(pool, account_id, agent_id, wanted),
        parameters=await choose_parameters(request, agent_id, body.read_parameters(), {"max_tokens": limit}),
        metadata=check_new_pairs(body.metadata or {}),
        **read_options(body),
        **client_tools,
    )
    hash_of = partial(find_by_history.hash_shown, build_scope(request.auth), agent_id, key or "")
    return await place_in_conversation(request, run_request, shown, key, hash_of)
