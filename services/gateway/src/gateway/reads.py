"""Reading conversations back: lists from the read models, one conversation from the fold of its log.

A list may be behind by the projector's second; a single conversation never is: callers read their own writes.
"""

from typing import TypeVar

import msgspec

from contracts import http, ids, wire
from contracts.values import Role
from conversations.conversation import Conversation, Run
from conversations.projections.conversations import TITLE_LENGTH, ConversationRow, conversations_of
from conversations.travel import WRONG_PLACE, Place, parse_place, past_of
from gateway import query
from gateway.admission import reader_of
from gateway.exchange import Exchange
from gateway.parts import Parts
from gateway.problems import Refusal, invalid

DEFAULT_LIMIT = 20
MAX_LIMIT = 100

T = TypeVar("T")


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
    found = await _owned(parts, exchange, conversation_id)
    exchange.headers.append((b"x-conversation-version", str(found.version).encode()))
    await exchange.json(wire.encode(_row(found)))


async def list_messages(parts: Parts, exchange: Exchange, conversation_id: str) -> None:
    """GET /v1/conversations/{conversation_id}/messages: the oldest first, those of now or `at` a place."""
    found = await _owned(parts, exchange, conversation_id)
    limit, after = _paging(exchange, str)
    messages = [message for run in found.runs for message in _messages(found.conversation_id, run)]
    begin = 0
    if after is not None:
        places = {message.id: place for place, message in enumerate(messages)}
        if after not in places:
            raise invalid("cursor", "This is not a cursor of this conversation.")
        begin = places[after] + 1
    page = messages[begin : begin + limit]
    await _send_page(exchange, page, page[-1].id if begin + limit < len(messages) else None)


async def _owned(parts: Parts, exchange: Exchange, conversation_id: str) -> Conversation:
    """The caller's conversation, folded from the log up to the place that `at` names.

    Raises Refusal, in the same words for every reason that it is not found.
    """
    caller = await reader_of(parts, exchange)
    conversation_id = conversation_id.lower()
    if not ids.is_uuid(conversation_id):
        raise Refusal("conversation_not_found")
    place = _place(exchange)
    async with parts.shares.reading(caller):
        past = await past_of(parts.log, conversation_id, place)
    found = past.conversation
    if found.account_id != caller.account_id or found.erased or not found.runs:
        raise Refusal("conversation_not_found")
    if isinstance(place, int) and place > past.head:
        raise invalid("at", f"The conversation is at version {past.head}.")
    return found


def _place(exchange: Exchange) -> Place | None:
    """The place that `at` names, None for now. Raises Refusal."""
    given = query.parameters(exchange, "at").get("at")
    if given is None:
        return None
    try:
        return parse_place(given)
    except ValueError:
        raise invalid("at", f"This {WRONG_PLACE}.") from None


def _row(conversation: Conversation) -> ConversationRow:
    messages = [each for run in conversation.runs for each in _messages(conversation.conversation_id, run)]
    return ConversationRow(
        conversation_id=conversation.conversation_id,
        title=conversation.runs[0].user_text[:TITLE_LENGTH],
        agent_id=conversation.runs[-1].agent_id,
        message_count=len(messages),
        created_at=conversation.started_at or messages[0].created_at,
        updated_at=messages[-1].created_at,
    )


def _messages(conversation_id: str, run: Run) -> list[MessageRow]:
    asked = MessageRow(
        id=run.user_message_id,
        conversation_id=conversation_id,
        role="user",
        content=run.user_text,
        created_at=run.requested_at,
        agent_id=run.agent_id,
        trace_id=run.trace_id,
    )
    if run.reply is None:
        return [asked]
    answered = MessageRow(
        id=run.reply.id,
        conversation_id=conversation_id,
        role="assistant",
        content=run.reply.content,
        created_at=run.reply.created_at,
        agent_id=run.agent_id,
        trace_id=run.trace_id,
        token_count=run.reply.token_count,
    )
    return [asked, answered]


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
