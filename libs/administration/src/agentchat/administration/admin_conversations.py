"""Find and delete conversations of all accounts."""

import asyncio
import os
from typing import TypedDict, Unpack

from agentchat.administration.admin import Admin, translate_errors
from agentchat.administration.admin_values import Deletion, Page
from agentchat.administration.checked_input import check_filters, check_storable, parse_id, parse_order
from agentchat.administration.query_parameters import (
    After,
    DryRun,
    Limit,
    MinCost,
    MinTokens,
    OfAccount,
    OfAgent,
    OfEnd,
    OfRating,
    OfTag,
    OfTool,
    OfUser,
    SearchText,
    Since,
    SortBy,
    Until,
)
from agentchat.administration.row_pages import build_sorted_page, count_rows
from agentchat.bus.commands import erase_conversation
from agentchat.contracts.admin_errors import Invalid, NotFound, Unavailable, Use
from agentchat.conversations.erasures import UnfinishedErasure, list_unfinished_erasures
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.projections.conversations_table import is_behind
from agentchat.conversations.queries.conversation_search import (
    CONVERSATIONS,
    ConversationSearch,
    ConversationSearchResult,
    find_conversations,
)
from agentchat.conversations.queries.find_by_trace import count_runs
from agentchat.conversations.queries.search_query import parse_search

_DELETIONS = 100
_PATIENCE_SECONDS = 10.0
_POLL_SECONDS = 0.1


class ConversationQuery(TypedDict, total=False):
    """The filters of a list of conversations, but for its words."""

    account_id: OfAccount | None
    agent_id: OfAgent | None
    since: Since | None
    until: Until | None
    end: OfEnd | None
    tool: OfTool | None
    tag: OfTag | None
    rating: OfRating | None
    user: OfUser | None
    min_cost: MinCost | None
    min_tokens: MinTokens | None


async def page(
    admin: Admin,
    query: SearchText | None = None,
    *,
    sort: SortBy | None = None,
    after: After | None = None,
    limit: Limit = 20,
    **filters: Unpack[ConversationQuery],
) -> Page[ConversationSearchResult]:
    """List conversations of all accounts: the one that began last first, or with the last activity.

    With `query`, those that it finds, the best first. Raises Invalid, Unavailable.
    """
    wanted = build_search(admin, query, sort, **filters)
    with translate_errors():
        try:
            found = await find_conversations(
                admin.pool, wanted, before=after, limit=count_rows(limit), counts=after is None
            )
        except ValueError:
            raise Invalid("cursor", "is not a cursor of this list") from None
    return build_sorted_page(found, limit)


def build_search(
    admin: Admin,
    query: str | None = None,
    sort: str | None = None,
    **filters: Unpack[ConversationQuery],
) -> ConversationSearch:
    """Check query parameters and build the search, of the accounts that the caller may see.

    Raises Invalid.
    """
    if query is not None:
        try:
            parse_search(check_storable("query", query))
        except ValueError as error:
            raise Invalid("query", str(error)) from None
    given = check_filters(filters)
    return ConversationSearch(
        account_ids=admin.limit["limited"],
        metadata=_parse_tag(given.pop("tag", None)),
        text=query,
        sort=parse_order(CONVERSATIONS, sort or ("created" if query is None else "rank")),
        **given,
    )


def _parse_tag(text: str | None) -> dict[str, str]:
    if text is None:
        return {}
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise Invalid("tag", "must be KEY=VALUE")
    return {key: value}


async def list_deletions(admin: Admin) -> tuple[UnfinishedErasure, ...]:
    """List deleted conversations with rows or copies left to remove, the largest first.

    100 at most. No reader sees them. Raises Unavailable.
    """
    with translate_errors():
        return tuple(await list_unfinished_erasures(admin.pool, limit=_DELETIONS))


async def delete(admin: Admin, conversation_id: str, *, dry_run: DryRun = False) -> Deletion:
    """Delete a conversation for every reader; a run that is under way is cancelled.

    Raises NotFound, Unavailable.
    """
    conversation_id = parse_id("conversation", conversation_id)
    with translate_errors():
        found = await Log(admin.pool).load_newest_run(conversation_id)
        runs = await count_runs(admin.pool, conversation_id) if dry_run else 0
    if found.erased or found.account_id is None:
        raise NotFound("conversation", conversation_id)
    if not dry_run:
        with translate_errors():
            erased = await erase_conversation(
                admin.need_bus().rpc, found.account_id, conversation_id, trace_id=os.urandom(16).hex()
            )
        if erased:
            async with admin.connection() as conn:
                before = {"account_id": found.account_id}
                await admin.note(conn, "delete", "conversation", conversation_id, before=before)
    return Deletion(kind="conversation", id=conversation_id, dry_run=dry_run, goes=(Use("runs", runs),))


async def wait_for_projector(admin: Admin) -> None:
    """Wait, 10 s at most, until the read model has all that is in the log now. Raises Unavailable."""
    with translate_errors():
        head = await Log(admin.pool).read_head()
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while await _is_behind(admin, head):  # noqa: ASYNC110 - another process advances it
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise Unavailable("the projector has not caught up with the log; try again") from None


async def _is_behind(admin: Admin, head: int) -> bool:
    async with admin.connection() as conn:
        return await is_behind(conn, head)
