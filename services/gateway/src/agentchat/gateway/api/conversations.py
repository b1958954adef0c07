"""Conversations are read back and deleted.

Lists come from the read models, and may lag by the projector's second; a single conversation from the
log itself: callers read their own writes.
"""

from typing import Annotated

import msgspec
from litestar import Response, delete, get

from agentchat.bus.commands import erase_conversation
from agentchat.conversations.projections.conversations_table import ConversationRow
from agentchat.conversations.queries import threads
from agentchat.conversations.queries.find_feedback import find_feedback
from agentchat.gateway.access.checks import may_act, may_read
from agentchat.gateway.api.conversation_access import (
    At,
    ConversationId,
    conversation_named,
    find_owned_thread,
    show_conversation,
)
from agentchat.gateway.api.conversation_rows import MessagePage, message_row
from agentchat.gateway.http.cursors import Cursor, Limit, next_cursor, position_of
from agentchat.gateway.http.json_request import JsonRequest
from agentchat.gateway.http.refusals import Refusal
from agentchat.gateway.services import services_of

PAGE_BYTES = 1024 * 1024
"""A page of messages ends with the one that reaches this, as stored."""

_Version = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


@get(
    "/v1/conversations/{conversation_id:str}",
    operation_id="getConversation",
    summary="Get one conversation, as it is or as it was.",
    guards=[may_read],
)
async def get_conversation(
    request: JsonRequest, conversation_id: ConversationId, at: At = None
) -> Response[ConversationRow]:
    """X-Conversation-Version is how many events have led to it: a place that `at` can name later."""
    thread = await find_owned_thread(request, conversation_id, at)
    return await show_conversation(services_of(request).pool, thread)


@get(
    "/v1/conversations/{conversation_id:str}/messages",
    operation_id="listMessages",
    summary="List a conversation's messages, the oldest first.",
    guards=[may_read],
)
async def list_messages(
    request: JsonRequest,
    conversation_id: ConversationId,
    limit: Limit = 20,
    cursor: Cursor = None,
    at: At = None,
) -> MessagePage:
    pool = services_of(request).pool
    thread = await find_owned_thread(request, conversation_id, at)
    after: int | None = position_of(cursor, _Version)
    page = await threads.list_messages(
        pool, thread.conversation_id, after=after or 0, until=thread.until, limit=limit, max_bytes=PAGE_BYTES
    )
    if not page.messages and after is None:
        raise Refusal("conversation_not_found")
    replies = [each.message.message_id for each in page.messages if each.message.role == "assistant"]
    feedback = await find_feedback(pool, thread.conversation_id, replies, thread.until, most=1)
    rows = tuple(
        message_row(thread.conversation_id, message, feedback.get(message.message_id))
        for message in (each.message for each in page.messages)
    )
    return MessagePage(data=rows, next_cursor=next_cursor(page.messages[-1].version if page.more else None))


@delete(
    "/v1/conversations/{conversation_id:str}",
    operation_id="deleteConversation",
    summary="Delete a conversation for every reader, for ever.",
    guards=[may_act],
)
async def delete_conversation(request: JsonRequest, conversation_id: ConversationId) -> None:
    """A run under way is cancelled first. 503 where it is unknown whether it was deleted."""
    rpc, trace_id = services_of(request).bus.rpc, request.context.trace_id
    conversation_id = conversation_named(conversation_id)
    if not await erase_conversation(rpc, request.auth.account_id, conversation_id, trace_id=trace_id):
        raise Refusal("conversation_not_found")
