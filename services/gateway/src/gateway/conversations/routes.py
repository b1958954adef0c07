"""Conversations are read back, described and deleted.

Lists come from the read models, and may lag by the projector's second; a single conversation from the
log itself: callers read their own writes.
"""

from typing import Annotated

import msgspec
from litestar import Router, delete, get, patch
from litestar.di import NamedDependency, Provide

from bus import describe_conversation, erase_conversation
from contracts import ids
from contracts.messages import DescribeConversation
from conversations.projections.conversations_table import ConversationRow, conversations_of
from conversations.queries import threads
from conversations.queries.finding_feedback import feedback_on
from gateway.access.account_bounds import within_reads_at_once
from gateway.access.admission import within_read_rate, within_write_bounds
from gateway.access.auth import KEY, has_key
from gateway.chat.admitted_request import has_idempotency_key
from gateway.conversations import description_body, list_filters
from gateway.conversations.conversation_access import (
    VERSION,
    ConversationId,
    ShownThread,
    provide_thread,
    shown,
)
from gateway.conversations.conversation_rows import (
    EXAMPLE,
    EXAMPLE_MESSAGES,
    EXAMPLE_PAGE,
    ConversationPage,
    MessagePage,
    message_row,
)
from gateway.conversations.description_body import DescriptionData
from gateway.conversations.forks import fork
from gateway.gateway_request import GatewayRequest
from gateway.http.http_responses import JsonAnswer
from gateway.http.paging import CURSOR, LIMIT, PageRequest, next_cursor, paged_by, paging_of
from gateway.http.problem_responses import Refusal
from gateway.http.query import known_query
from gateway.openapi.described import described

PAGE_BYTES = 1024 * 1024
"""A page of messages ends with the one that reaches this, as stored."""

_Version = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


@described(parameters=[LIMIT, CURSOR])
async def _provide_message_paging(
    request: GatewayRequest,
    thread: NamedDependency[ShownThread],  # noqa: ARG001 - which comes first
) -> PageRequest:
    return paging_of(request.exchange, _Version)


@get(
    "/",
    operation_id="listConversations",
    summary="List the account's conversations, the newest first.",
    description="The list may lag by a moment; one conversation never does.",
    response_description="A page of them.",
    guards=[within_reads_at_once],
    dependencies={"paging": paged_by(tuple[str, str])},
)
@described(parameters=list_filters.PARAMETERS, examples={"last": EXAMPLE_PAGE})
async def list_conversations(
    request: GatewayRequest, paging: NamedDependency[PageRequest]
) -> ConversationPage:
    limit = paging.limit
    rows = await conversations_of(
        request.services.pool,
        request.auth.account_id,
        limit=limit + 1,
        before=paging.after,
        matching=list_filters.filter_of(request.exchange),
    )
    more = (rows[limit - 1].created_at, rows[limit - 1].conversation_id) if len(rows) > limit else None
    return ConversationPage(data=tuple(rows[:limit]), next_cursor=next_cursor(more))


@get(
    "/{conversation_id:str}",
    operation_id="getConversation",
    summary="Get one conversation, as it is or as it was.",
    response_description="The conversation.",
    guards=[within_reads_at_once],
)
@described(headers=VERSION, examples={"conversation": EXAMPLE})
async def get_conversation(
    request: GatewayRequest, thread: NamedDependency[ShownThread]
) -> JsonAnswer[ConversationRow]:
    """GET /v1/conversations/{conversation_id}: the same fields as in the list, now or `at` a place before."""
    return await shown(request, thread)


@patch(
    "/{conversation_id:str}",
    operation_id="describeConversation",
    summary="Set the title and the metadata of a conversation.",
    description="A run under way goes on. The answer is the conversation as it then is.",
    response_description="The conversation.",
    guards=[within_write_bounds, within_reads_at_once, has_idempotency_key],
    decode=description_body.decode,
)
@described("conversation_not_found", "conversation_full", headers=VERSION, examples={"conversation": EXAMPLE})
async def describe(
    request: GatewayRequest, conversation_id: ConversationId, data: DescriptionData
) -> JsonAnswer[ConversationRow]:
    """PATCH /v1/conversations/{conversation_id}: by its Idempotency-Key once, whatever was set since.

    Raises Refusal, ClientGone, DatabaseUnavailable, and BusUnavailable where it is unknown whether it was
    set.
    """
    services, exchange, conversation_id = request.services, request.exchange, conversation_id.lower()
    if not ids.is_uuid(conversation_id):
        raise Refusal("conversation_not_found")
    command = DescribeConversation(
        trace_id=exchange.trace_id,
        account_id=request.auth.account_id,
        conversation_id=conversation_id,
        title=data.title,
        metadata={} if data.metadata is msgspec.UNSET else data.metadata,
        keyed=request.idempotency_key.text is not None,
    )
    command = await request.idempotency_key.claim_command(services.claims, command)
    exchange.answer_as(command.trace_id)
    answer = await describe_conversation(services.bus.rpc, command)
    match answer.outcome:
        case "too_many_pairs":
            raise description_body.too_many_pairs()
        case "full":
            raise Refusal("conversation_full")
        case "described":
            return await shown(request, ShownThread(conversation_id, answer.version))
        case _:
            raise Refusal("conversation_not_found")


@get(
    "/{conversation_id:str}/messages",
    operation_id="listMessages",
    summary="List a conversation's messages, the oldest first.",
    response_description="A page of them.",
    guards=[within_reads_at_once],
    dependencies={"paging": Provide(_provide_message_paging)},
)
@described(examples={"last": EXAMPLE_MESSAGES})
async def list_messages(
    request: GatewayRequest, thread: NamedDependency[ShownThread], paging: NamedDependency[PageRequest]
) -> MessagePage:
    """GET /v1/conversations/{conversation_id}/messages: those of now or `at` a place."""
    page = await threads.messages_of(
        request.services.pool,
        thread.conversation_id,
        after=paging.after or 0,
        until=thread.until,
        limit=paging.limit,
        max_bytes=PAGE_BYTES,
    )
    if not page.messages and paging.after is None:
        raise Refusal("conversation_not_found")
    replies = [each.message.message_id for each in page.messages if each.message.role == "assistant"]
    feedback = await feedback_on(request.services.pool, thread.conversation_id, replies, thread.until, most=1)
    rows = tuple(
        message_row(thread.conversation_id, message, feedback.get(message.message_id))
        for message in (each.message for each in page.messages)
    )
    return MessagePage(data=rows, next_cursor=next_cursor(page.messages[-1].version if page.more else None))


@delete(
    "/{conversation_id:str}",
    operation_id="deleteConversation",
    summary="Delete a conversation for every reader, for ever.",
    description="A run under way is cancelled first.",
    response_description="It is gone.",
)
@described("conversation_not_found")
async def delete_conversation(request: GatewayRequest, conversation_id: ConversationId) -> None:
    """DELETE /v1/conversations/{conversation_id}: at the answer it is gone for every reader.

    Raises Refusal, and BusUnavailable where it is unknown whether it was erased.
    """
    rpc, conversation_id = request.services.bus.rpc, conversation_id.lower()
    trace_id = request.exchange.trace_id
    if not ids.is_uuid(conversation_id) or not await erase_conversation(
        rpc, request.auth.account_id, conversation_id, trace_id=trace_id
    ):
        raise Refusal("conversation_not_found")


ROUTER = Router(
    "/v1/conversations",
    route_handlers=[list_conversations, get_conversation, describe, list_messages, fork, delete_conversation],
    guards=[has_key, within_read_rate],
    before_request=known_query,
    dependencies={"thread": Provide(provide_thread)},
    security=[KEY],
    tags=["conversations"],
)
