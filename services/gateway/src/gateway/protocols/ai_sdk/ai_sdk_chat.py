"""POST /ai-sdk/v1/agents/{agent}/chat: the chat is sent, its next message comes as chunks."""

from functools import partial

from litestar import post

from contracts import wire
from contracts.examples import CONVERSATION, TRACE
from contracts.ids import reply_id
from conversations.queries import shown_history
from gateway.chat import client_history, resume_run
from gateway.chat.admitted_request import AdmittedRequest, within_run_limits
from gateway.chat.launch_run import RUN_REFUSALS
from gateway.chat.run_request import RunRequest
from gateway.chat.start import start
from gateway.openapi.described import described
from gateway.openapi.openapi_schemas import ref
from gateway.protocols.agent_address import CONVERSATION_ID, SECURITY, check_agent, has_key
from gateway.protocols.ai_sdk.ai_sdk_body import ChatData, UiChat, history_of, name_of, verdicts_of
from gateway.protocols.ai_sdk.ui_message_chunks import AiSdkChunks
from gateway.protocols.ai_sdk.wire import (
    CHUNKS,
    Finish,
    FinishStep,
    Start,
    StartStep,
    TextDelta,
    TextEnd,
    TextStart,
)
from gateway.runs.event_stream import EventStream

TYPES: tuple[type, ...] = CHUNKS
TAG = {"name": "ai-sdk", "description": "Agents for the AI SDK's `useChat`."}
VERSION = (b"x-vercel-ai-ui-message-stream", b"v1")
STREAM_HEADERS = {
    **CONVERSATION_ID,
    "X-Vercel-Ai-Ui-Message-Stream": {"schema": {"const": "v1"}, "description": "The form of the stream."},
}
_CHUNK = {
    "type": "string",
    "contentMediaType": "application/json",
    "contentSchema": {"oneOf": [ref(kind) for kind in CHUNKS]},
}
CONTENT = {"text/event-stream": {"type": "object", "required": ["data"], "properties": {"data": _CHUNK}}}
_EXAMPLE = (
    Start(message_id=reply_id(TRACE), message_metadata={"conversationId": CONVERSATION, "traceId": TRACE}),
    StartStep(),
    TextStart(id="1"),
    TextDelta(id="1", delta="It has shipped."),
    TextEnd(id="1"),
    FinishStep(),
    Finish(finish_reason="stop", message_metadata={"usage": {"totalTokens": 469}}),
)
EXAMPLE = b"".join(map(wire.encode_sse, _EXAMPLE)).decode()


async def _run_request(request: AdmittedRequest, body: UiChat) -> RunRequest:
    """Under the chat's id its conversation is the one whose texts are those shown; without one, none is.

    What was decided in the last message is of a run that waits, whatever else is shown.

    Raises Refusal, DatabaseUnavailable.
    """
    account_id, limit = request.auth.account_id, request.auth.plan.max_message_bytes
    agent_id = request.agent_id
    name, verdicts = name_of(body), verdicts_of(body)
    if verdicts:
        return RunRequest(form="ai_sdk", agent_id=agent_id, streamed=True, verdicts=verdicts)
    given = await request.in_turn(partial(history_of, body, limit))
    hash_of = partial(shown_history.named_hash_of, account_id, agent_id, name or "")
    requested = RunRequest(
        form="ai_sdk",
        agent_id=agent_id,
        message=given.message,
        streamed=True,
        outputs=True,
        unlisted=name is None,
        history=given.history,
        instructions=given.instructions,
        shown_sha256=None if name is None else hash_of(given.digests.messages),
    )
    if name is None:
        return requested
    return await client_history.find_conversation(
        request.services.pool, requested, given, account_id, name, hash_of
    )


@post(
    "/ai-sdk/v1/agents/{agent:str}/chat",
    status_code=200,
    media_type="text/event-stream",
    operation_id="chatWithUi",
    summary="Send a chat, get its next message as a UI message stream.",
    description="For `useChat`. See docs/integrate/ai-sdk.md for what is ignored and what is refused.",
    response_description="The message is saved, and these are the chunks of its reply. The last is `[DONE]`, "
    "after `finish`; or an `error`.",
    request_class=AdmittedRequest,
    guards=[has_key, within_run_limits],
    before_request=check_agent,
    security=SECURITY,
    tags=[TAG["name"]],
)
@described(
    *RUN_REFUSALS,
    *resume_run.REFUSALS,
    content=CONTENT,
    headers=STREAM_HEADERS,
    examples={"text": EXAMPLE},
)
async def chat(request: AdmittedRequest, data: ChatData) -> EventStream:
    """The chunks as they come."""
    started = await start(request, await _run_request(request, data))
    claim, run = started.claim, started.run
    request.exchange.headers += (VERSION, (b"x-conversation-id", claim.conversation_id.encode()))
    chunks = AiSdkChunks(claim.trace_id, claim.conversation_id, started.after_pause)
    return EventStream(run, lambda: chunks.encode(run.take()))
