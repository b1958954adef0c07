"""Reading conversations back: lists from the read models, one conversation from the log itself.

A list may be behind by the projector's second; a single conversation never is: callers read their own writes.
"""

from typing import Annotated, TypeVar

import msgspec

from contracts import http, ids, wire
from contracts.events import MessageSaved
from contracts.values import Role
from conversations import threads
from conversations.projections.conversations import TITLE_LENGTH, ConversationRow, conversations_of
from conversations.threads import Thread
from conversations.travel import WRONG_PLACE, Place, parse_place
from directory.caller import Caller
from gateway import query
from gateway.admission import reader_of
from gateway.exchange import Exchange
from gateway.parts import Parts
from gateway.problems import Refusal, invalid

DEFAULT_LIMIT = 20
MAX_LIMIT = 100
PAGE_BYTES = 1024 * 1024
"""A page of messages ends with the one that reaches this, as stored."""

T = TypeVar("T")
_Version = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class MessageRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message of a conversation; `token_count` on the assistant's only."""

    id: str
    conversation_id: str
    role: Role
    content: str
    created_at: str
    agent_id: str
    trace_id: str
    token_count: int | None = None


async def list_conversations(parts: Parts, exchange: Exchange) -> None:
    """GET /v1/conversations: the account's threads, the newest first."""
    caller = await reader_of(parts, exchange)
    limit, before = _paging(exchange, tuple[str, str])
    rows = await conversations_of(parts.pool, caller.account_id, limit=limit + 1, before=before)
    more = (rows[limit - 1].created_at, rows[limit - 1].conversation_id) if len(rows) > limit else None
    await _send_page(exchange, rows[:limit], more)


async def get_conversation(parts: Parts, exchange: Exchange, conversation_id: str) -> None:
    """GET /v1/conversations/{conversation_id}: the same fields as in the list, now or `at` a place before."""
    caller = await reader_of(parts, exchange)
    async with parts.shares.reading(caller):
        thread, until = await _owned(parts, exchange, caller, conversation_id)
        found = await threads.summary_of(parts.pool, thread.conversation_id, until)
        if found is None:
            raise Refusal("conversation_not_found")
        exchange.headers.append((b"x-conversation-version", str(until).encode()))
        await exchange.json(wire.encode(_row(thread.conversation_id, found)))


async def list_messages(parts: Parts, exchange: Exchange, conversation_id: str) -> None:
    """GET /v1/conversations/{conversation_id}/messages: the oldest first, those of now or `at` a place."""
    caller = await reader_of(parts, exchange)
    async with parts.shares.reading(caller):
        thread, until = await _owned(parts, exchange, caller, conversation_id)
        limit, after = _paging(exchange, _Version)
        page = await threads.messages_of(
            parts.pool,
            thread.conversation_id,
            after=after or 0,
            until=until,
            limit=limit,
            max_bytes=PAGE_BYTES,
        )
        if not page.messages and after is None:
            raise Refusal("conversation_not_found")
        rows = [_message(thread.conversation_id, each.message) for each in page.messages]
        await _send_page(exchange, rows, page.messages[-1].version if page.more else None)


async def _owned(
    parts: Parts, exchange: Exchange, caller: Caller, conversation_id: str
) -> tuple[Thread, int]:
    """The caller's conversation, and the version up to which it is shown: that of the place in `at`.

    Raises Refusal, in the same words and the same time for every reason that it is not found.
    """
    conversation_id = conversation_id.lower()
    if not ids.is_uuid(conversation_id):
        raise Refusal("conversation_not_found")
    place = _place(exchange)
    thread = await threads.find_thread(parts.pool, conversation_id)
    if thread is None or thread.account_id != caller.account_id:
        raise Refusal("conversation_not_found")
    if place is None:
        return thread, thread.version
    if not isinstance(place, int):
        return thread, await threads.version_at(parts.pool, thread, place)
    if place > thread.version:
        raise invalid("at", f"The conversation is at version {thread.version}.")
    return thread, place


def _place(exchange: Exchange) -> Place | None:
    """The place that `at` names, None for now. Raises Refusal."""
    given = query.parameters(exchange, "at").get("at")
    if given is None:
        return None
    try:
        return parse_place(given)
    except ValueError:
        raise invalid("at", f"This {WRONG_PLACE}.") from None


def _row(conversation_id: str, found: threads.Summary) -> ConversationRow:
    return ConversationRow(
        conversation_id=conversation_id,
        title=found.first.content[:TITLE_LENGTH],
        agent_id=found.last.agent_id,
        message_count=found.count,
        created_at=found.started_at,
        updated_at=found.last.at,
    )


def _message(conversation_id: str, saved: MessageSaved) -> MessageRow:
    return MessageRow(
        id=saved.message_id,
        conversation_id=conversation_id,
        role=saved.role,
        content=saved.content,
        created_at=saved.at,
        agent_id=saved.agent_id,
        trace_id=saved.trace_id,
        token_count=saved.token_count,
    )


def _paging(exchange: Exchange, kind: type[T]) -> tuple[int, T | None]:
    """`limit` and the place that `cursor` names. Raises Refusal."""
    given = query.parameters(exchange, "limit", "cursor")
    limit = query.whole_number("limit", given.get("limit", str(DEFAULT_LIMIT)), MAX_LIMIT)
    if not given.get("cursor"):
        return limit, None
    data = query.place_of(given["cursor"])
    try:
        place = msgspec.json.decode(data.replace(b"\\u0000", b"?"), type=kind)  # no place holds NUL
    except (ValueError, msgspec.DecodeError):
        raise query.wrong_cursor() from None
    return limit, place


async def _send_page(
    exchange: Exchange, rows: list[ConversationRow] | list[MessageRow], place: object
) -> None:
    cursor = None if place is None else query.cursor_of(msgspec.json.encode(place))
    page = http.Page(data=tuple(msgspec.Raw(wire.encode(row)) for row in rows), next_cursor=cursor)
    await exchange.json(wire.encode(page))
