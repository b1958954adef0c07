"""POST /ai-sdk/v1/agents/{agent}/chat: the chat is sent, its next message comes as chunks."""

from functools import partial
from typing import Any

from litestar import Request, post

from conversations.queries import shown_history
from gateway.chat import resume_run, shown
from gateway.chat.run_request import RunRequest, RunRequester
from gateway.chat.start import ChatEndpoint, start
from gateway.gateway_services import Parts
from gateway.http import strict_json
from gateway.http.exchange import Exchange, of
from gateway.openapi.described import described
from gateway.protocols.agent_address import SECURITY, AgentName, agent_of, key_and_agent_of
from gateway.protocols.ai_sdk import ai_sdk_body
from gateway.protocols.ai_sdk.ai_sdk_openapi import BODY, CONTENT, EXAMPLE, STREAM_HEADERS, TAG, VERSION
from gateway.protocols.ai_sdk.ui_message_chunks import AiSdkChunks
from gateway.runs.event_stream import EventStream


@described("agent_not_found", "unsupported_media_type", "message_too_large", *resume_run.REFUSALS, body=BODY)
async def _read(parts: Parts, exchange: Exchange, requester: RunRequester, agent: str) -> RunRequest:
    """Under the chat's id its conversation is the one whose texts are those shown; without one, none is.

    What was decided in the last message is of a run that waits, whatever else is shown.

    Raises Refusal, ClientGone, DatabaseUnavailable.
    """
    account_id, limit = requester.caller.account_id, requester.caller.plan.max_message_bytes
    agent_id = await agent_of(parts, requester, agent)
    given = await strict_json.read_json(exchange, partial(ai_sdk_body.parse, max_message_bytes=limit))
    if given.shown is None:
        return RunRequest(form=requester.form, agent_id=agent_id, streamed=True, verdicts=given.verdicts)
    hash_of = partial(shown_history.named_hash_of, account_id, agent_id, given.key or "")
    requested = RunRequest(
        form=requester.form,
        agent_id=agent_id,
        message=given.shown.message,
        streamed=True,
        outputs=True,
        unlisted=given.key is None,
        history=given.shown.history,
        instructions=given.shown.instructions,
        shown_sha256=None if given.key is None else hash_of(given.shown.digests.messages),
    )
    if given.key is None:
        return requested
    return await shown.found(parts.pool, requested, given.shown, account_id, given.key, hash_of)


def _endpoint(agent: str) -> ChatEndpoint[RunRequest]:
    return ChatEndpoint(
        credentials=partial(key_and_agent_of, agent),
        form=lambda *_: "ai_sdk",
        read=partial(_read, agent=agent),
    )


@post(
    "/ai-sdk/v1/agents/{agent:str}/chat",
    status_code=200,
    media_type="text/event-stream",
    operation_id="chatWithUi",
    summary="Send a chat, get its next message as a UI message stream.",
    description="For `useChat`. See docs/integrate/ai-sdk.md for what is ignored and what is refused.",
    response_description="The message is saved, and these are the chunks of its reply. The last is `[DONE]`, "
    "behind `finish`; or an `error`.",
    security=SECURITY,
    tags=[TAG["name"]],
)
@described(content=CONTENT, headers=STREAM_HEADERS, examples={"text": EXAMPLE}, stages=_endpoint("").stages)
async def chat(request: Request[Any, Any, Any], agent: AgentName) -> EventStream:
    """The chunks as they come."""
    started = await start(request, _endpoint(agent))
    claim, run = started.claim, started.run
    conversation = (b"x-conversation-id", claim.conversation_id.encode())
    of(request.scope).headers += (VERSION, conversation)
    chunks = AiSdkChunks(claim.trace_id, claim.conversation_id, started.behind)
    return EventStream(run, lambda: chunks.encode(run.take()))
