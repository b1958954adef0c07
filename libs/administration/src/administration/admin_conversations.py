"""Conversations are their account's; an administrator finds and deletes them."""

import asyncio
import os

import msgspec

from administration import holdings
from administration.admin import Admin, outcomes
from administration.admin_values import Deletion, Page
from administration.checked_input import checked_time, identifier, storable
from administration.parameters import (
    After,
    DryRun,
    Limit,
    OfAccount,
    OfAgent,
    OfEnd,
    OfRating,
    OfTag,
    OfTool,
    SearchText,
    Since,
    Until,
)
from bus.commands import erase_conversation
from contracts.admin_errors import Invalid, NotFound, Unavailable, Use
from conversations.erased_rows import UnfinishedErasure, unfinished_erasures
from conversations.event_store.log import Log
from conversations.projections.conversations_table import conversations_of, is_behind
from conversations.projections.feedback_table import RATINGS
from conversations.queries.find_run import count_runs
from conversations.queries.finding_conversations import (
    ConversationFilter,
    FoundConversation,
    find_conversations,
)

ENDS = ("running", "completed", "failed", "cancelled")
_AT_ONCE = 4
_PORTION = 100
_NAMED = 5
_DELETIONS = 100
_PATIENCE_SECONDS = 10.0
_POLL_SECONDS = 0.1


async def page(
    admin: Admin,
    *,
    account_id: OfAccount | None = None,
    agent_id: OfAgent | None = None,
    since: Since | None = None,
    until: Until | None = None,
    end: OfEnd | None = None,
    tool: OfTool | None = None,
    tag: OfTag | None = None,
    rating: OfRating | None = None,
    after: After | None = None,
    limit: Limit = 20,
) -> Page[FoundConversation]:
    """List conversations of all accounts, the one that began last first. Raises Invalid, Unavailable."""
    wanted = conversation_filter(account_id, agent_id, since, until, end, tool, tag, rating)
    return await _page(admin, wanted, after, limit)


async def search(
    admin: Admin,
    query: SearchText,
    *,
    account_id: OfAccount | None = None,
    agent_id: OfAgent | None = None,
    since: Since | None = None,
    until: Until | None = None,
    end: OfEnd | None = None,
    tool: OfTool | None = None,
    tag: OfTag | None = None,
    rating: OfRating | None = None,
    after: After | None = None,
    limit: Limit = 20,
) -> Page[FoundConversation]:
    """Find conversations by words of a message, of their titles or metadata, or by an id.

    Raises Invalid, Unavailable.
    """
    wanted = conversation_filter(account_id, agent_id, since, until, end, tool, tag, rating)
    wanted = msgspec.structs.replace(wanted, text=storable("query", query))
    return await _page(admin, wanted, after, limit)


def conversation_filter(
    account_id: str | None,
    agent_id: str | None,
    since: str | None,
    until: str | None,
    end: str | None,
    tool: str | None,
    tag: str | None,
    rating: str | None,
) -> ConversationFilter:
    """What callers write of it, checked. Raises Invalid."""
    if end is not None and end not in ENDS:
        raise Invalid("end", f"must be one of {', '.join(ENDS)}")
    if rating not in (None, *RATINGS):
        raise Invalid("rating", f"must be one of {', '.join(RATINGS)}")
    return ConversationFilter(
        account_id=account_id,
        agent_id=agent_id,
        since=None if since is None else checked_time("since", since),
        until=None if until is None else checked_time("until", until),
        end=end,
        tool=tool,
        rating=rating,
        metadata=_tag(tag),
    )


async def _page(
    admin: Admin, wanted: ConversationFilter, after: str | None, limit: int
) -> Page[FoundConversation]:
    with outcomes():
        rows = await find_conversations(admin.pool, wanted, before=after, limit=limit + 1)
    return Page(items=tuple(rows[:limit]), after=rows[limit - 1].id if len(rows) > limit else None)


def _tag(text: str | None) -> dict[str, str]:
    if text is None:
        return {}
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise Invalid("tag", "must be KEY=VALUE")
    return {key: value}


async def deletions(admin: Admin) -> tuple[UnfinishedErasure, ...]:
    """List deleted conversations of which rows or copies are still to be removed, the largest first.

    100 at most. No reader sees them. Raises Unavailable.
    """
    with outcomes():
        return tuple(await unfinished_erasures(admin.pool, limit=_DELETIONS))


async def delete(admin: Admin, conversation_id: str, *, dry_run: DryRun = False) -> Deletion:
    """Delete a conversation for every reader; a run that is under way is cancelled.

    Raises NotFound, Unavailable.
    """
    conversation_id = identifier("conversation", conversation_id)
    with outcomes():
        found = await Log(admin.pool).newest_run(conversation_id)
        runs = await count_runs(admin.pool, conversation_id) if dry_run else 0
    if found.erased or found.account_id is None:
        raise NotFound("conversation", conversation_id)
    if not dry_run:
        await _erase(admin, found.account_id, conversation_id)
    return Deletion(kind="conversation", id=conversation_id, dry_run=dry_run, goes=(Use("runs", runs),))


async def delete_all(admin: Admin, account_id: str) -> None:
    """All conversations of an account that is disabled and has no agents: no run begins any more.

    Raises Unavailable, and where the read model lists what the log does not have.
    """
    await caught_up(admin)
    not_there: set[str] = set()
    while listed := await _erase_listed(admin, account_id):
        if strays := sorted(not_there & listed.keys()):
            raise _listed_in_vain(strays)
        not_there = {conversation_id for conversation_id, erased in listed.items() if not erased}
        await caught_up(admin)
    for conversation_id in await holdings.unlisted(admin, account_id):
        await _erase(admin, account_id, conversation_id)


async def _erase_listed(admin: Admin, account_id: str) -> dict[str, bool]:
    """Erase what the read model lists; returns of each whether it was there.

    One that was not may have been erased by somebody else, which the next list then knows.
    """
    outcomes_by_id: dict[str, bool] = {}
    before = None
    while True:
        with outcomes():
            rows = await conversations_of(admin.pool, account_id, limit=_PORTION, before=before)
        if not rows:
            return outcomes_by_id
        before = (rows[-1].created_at, rows[-1].conversation_id)
        listed = [row.conversation_id for row in rows]
        for start in range(0, len(listed), _AT_ONCE):
            portion = listed[start : start + _AT_ONCE]
            erased = await asyncio.gather(*(_erase(admin, account_id, each) for each in portion))
            outcomes_by_id.update(zip(portion, erased, strict=True))


def _listed_in_vain(strays: list[str]) -> Unavailable:
    names = ", ".join(strays[:_NAMED]) + (", ..." if len(strays) > _NAMED else "")
    return Unavailable(
        f"the read model lists conversations that the log does not have: {names}; "
        "rebuild it with `agentchat replay rebuild conversations`, then try again"
    )


async def _erase(admin: Admin, account_id: str, conversation_id: str) -> bool:
    """Whether it was there to be erased."""
    with outcomes():
        erased = await erase_conversation(
            admin.need_bus().rpc, account_id, conversation_id, trace_id=os.urandom(16).hex()
        )
    if erased:
        async with admin.connection() as conn:
            after = {"account_id": account_id}
            await admin.note(conn, "delete", "conversation", conversation_id, before=after)
    return erased


async def caught_up(admin: Admin) -> None:
    """Wait, 10 s at most, until the read model has all that is in the log now. Raises Unavailable."""
    with outcomes():
        head = await Log(admin.pool).head()
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while await _behind(admin, head):  # noqa: ASYNC110 - another process advances it
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise Unavailable("the projector has not caught up with the log; try again") from None


async def _behind(admin: Admin, head: int) -> bool:
    async with admin.connection() as conn:
        return await is_behind(conn, head)
