"""Read one conversation and its messages, as they are or as they were (`?at=`).

Both come from the log itself, so that callers read their own writes. Lists come from the read models and may
be a second old.
"""

from typing import Annotated

import msgspec
from litestar import Response, get
from litestar.params import PathParameter, QueryParameter

from agentchat.contracts import ids
from agentchat.contracts.ownership import may_use
from agentchat.conversations.queries import read_thread
from agentchat.conversations.queries.conversation_filters import ConversationRow
from agentchat.conversations.queries.find_feedback import find_feedback
from agentchat.conversations.queries.time_travel import WRONG_VERSION_OR_TIME, parse_version_or_time
from agentchat.gateway.access.checks import may_read
from agentchat.gateway.api.conversation_rows import MessagePage, build_conversation_row, build_message_row
from agentchat.gateway.http.pagination import Cursor, Limit, decode_position, encode_next_cursor
from agentchat.gateway.http.problems import build_conversation_not_found, build_field_refusal
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.runtime.postgres import Pool

PAGE_BYTES = 1024 * 1024
"""A page of messages ends with the one that reaches this, as stored."""

ConversationId = Annotated[
    str, PathParameter(description="One of the account's conversations.", schema_extra={"format": "uuid"})
]
At = Annotated[
    str | None,
    QueryParameter(
        description="As it was: at a version (X-Conversation-Version) or a time (ISO 8601; UTC without "
        "an offset). Without it: as it is now."
    ),
]

_Version = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class ShownThread(msgspec.Struct, frozen=True):
    """A conversation of the caller's, and the version up to which it is shown."""

    conversation_id: str
    until: int


@get(
    "/v1/conversations/{conversation_id:str}",
    operation_id="getConversation",
    summary="Get one conversation, as it is or as it was.",
    guards=[may_read],
)
async def get_conversation(
    request: JsonRequest, conversation_id: ConversationId, at: At = None
) -> Response[ConversationRow]:
    """Return the conversation. X-Conversation-Version is its number of events, which `at` accepts later."""
    thread = await find_thread_at(request, conversation_id, at)
    return await show_conversation(request.services.pool, thread)


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
    """Return a page of messages.

    A page also ends with the message that reaches 1 MiB, outputs of tools included.
    """
    pool = request.services.pool
    thread = await find_thread_at(request, conversation_id, at)
    after: int | None = decode_position(cursor, _Version)
    page = await read_thread.list_messages(
        pool, thread.conversation_id, after=after or 0, until=thread.until, limit=limit, max_bytes=PAGE_BYTES
    )
    if not page.messages and after is None:
        raise build_conversation_not_found()
    replies = [each.message.message_id for each in page.messages if each.message.role == "assistant"]
    feedback = await find_feedback(pool, thread.conversation_id, replies, thread.until, most=1)
    runs = {}
    if replies:
        until = page.messages[-1].version
        runs = await read_thread.load_runs(pool, thread.conversation_id, after=after or 0, until=until)
    rows = tuple(
        build_message_row(
            thread.conversation_id,
            each.message,
            feedback.get(each.message.message_id),
            runs.get(each.message.trace_id),
        )
        for each in page.messages
    )
    last = page.messages[-1].version if page.more else None
    return MessagePage(data=rows, next_cursor=encode_next_cursor(last))


def parse_conversation_id(conversation_id: str) -> str:
    """Return the id in lower case. Raises Refusal: 404 for what is no id."""
    conversation_id = conversation_id.lower()
    if not ids.is_uuid(conversation_id):
        raise build_conversation_not_found()
    return conversation_id


async def find_thread_at(request: JsonRequest, conversation_id: str, at: str | None) -> ShownThread:
    """Find the caller's conversation, and the version that `at` names: a version, or a time.

    Raises:
        Refusal: 400 for a wrong `at`; 404 if it does not exist or is another account's or user's, with the
            same message and in the same time.
    """
    pool, conversation_id = request.services.pool, parse_conversation_id(conversation_id)
    try:
        place = None if at is None else parse_version_or_time(at)
    except ValueError:
        raise build_field_refusal("at", f"This {WRONG_VERSION_OR_TIME}.") from None
    thread = await read_thread.find_thread(pool, conversation_id)
    if thread is None or not may_use(request.auth, thread):
        raise build_conversation_not_found()
    if place is None:
        return ShownThread(conversation_id, thread.version)
    if not isinstance(place, int):
        return ShownThread(conversation_id, await read_thread.find_version_at(pool, thread, place))
    if place > thread.version:
        raise build_field_refusal("at", f"The conversation is at version {thread.version}.")
    return ShownThread(conversation_id, place)


async def show_conversation(pool: Pool, thread: ShownThread) -> Response[ConversationRow]:
    """Build the response that shows a conversation. Raises Refusal, DatabaseUnavailable."""
    found = await read_thread.load_summary(pool, thread.conversation_id, thread.until)
    if found is None:
        raise build_conversation_not_found()
    row = build_conversation_row(thread.conversation_id, found)
    return Response(row, headers={"X-Conversation-Version": str(thread.until)})
