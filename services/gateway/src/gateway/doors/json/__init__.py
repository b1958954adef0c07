"""POST /v1/chat: the reply as one JSON document, once it is saved."""

from typing import Any

from litestar import Request, post

from contracts import http
from contracts.examples import CONVERSATION, MESSAGE, TOOL_CALL
from gateway.access.auth import KEY, key_and_agent_of
from gateway.chat.launch import whole
from gateway.chat.start import Way, start
from gateway.doors import own
from gateway.openapi.described import described

_REPLY = http.ChatReply(conversation_id=CONVERSATION, message=MESSAGE)
_WITH_TOOLS = http.ChatReply(conversation_id=CONVERSATION, message=MESSAGE, tool_calls=(TOOL_CALL,))


_WAY = Way(credentials=key_and_agent_of, form=lambda *_: "json", read=own.read)


@post(
    "/v1/chat",
    status_code=200,
    operation_id="chat",
    summary="Send a message, get the reply as JSON.",
    response_description="The saved reply.",
    security=[KEY],
    tags=["chat"],
)
@described(examples={"text": _REPLY, "with tools": _WITH_TOOLS}, stages=_WAY.stages)
async def chat(request: Request[Any, Any, Any]) -> http.ChatReply:
    """Wait for the whole reply."""
    started = await start(request, _WAY)
    finished, _ = await whole(started.run)
    return http.ChatReply(
        conversation_id=started.claim.conversation_id,
        message=finished.message,
        tool_calls=finished.tool_calls or None,
    )
