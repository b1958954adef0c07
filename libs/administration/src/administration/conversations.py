"""Conversations are their account's; an administrator deletes them."""

import asyncio
import os

from administration.admin import Admin
from administration.errors import NotFound, Unavailable, outcomes
from administration.reading import identifier
from administration.values import Deletion, Use
from bus import erase_conversation
from conversations.log import Log
from conversations.projections.conversations import conversations_of, is_behind
from directory.administration.audit import record

_AT_ONCE = 4
_PORTION = 100
_PATIENCE_SECONDS = 10.0
_POLL_SECONDS = 0.1


async def delete(admin: Admin, conversation_id: str, *, dry_run: bool = False) -> Deletion:
    """Gone for every reader. A run that is under way is cancelled. Raises NotFound, Unavailable."""
    conversation_id = identifier("conversation", conversation_id)
    with outcomes():
        found = await Log(admin.pool).conversation(conversation_id)
    if found.erased or found.account_id is None:
        raise NotFound("conversation", conversation_id)
    if not dry_run:
        await _erase(admin, found.account_id, conversation_id)
    return Deletion(
        kind="conversation", id=conversation_id, dry_run=dry_run, goes=(Use("runs", len(found.runs)),)
    )


async def delete_all(admin: Admin, account_id: str) -> None:
    """All of an account whose door is shut and whose agents are gone: no run begins any more.

    Raises Unavailable.
    """
    await caught_up(admin)
    while True:
        with outcomes():
            rows = await conversations_of(admin.pool, account_id, limit=_PORTION)
        if not rows:
            return
        for start in range(0, len(rows), _AT_ONCE):
            portion = rows[start : start + _AT_ONCE]
            await asyncio.gather(*(_erase(admin, account_id, row.conversation_id) for row in portion))
        await caught_up(admin)


async def _erase(admin: Admin, account_id: str, conversation_id: str) -> None:
    """False is an erasure of before, which the read model does not tell yet."""
    with outcomes():
        erased = await erase_conversation(
            admin.need_bus(), account_id, conversation_id, trace_id=os.urandom(16).hex()
        )
    if erased:
        async with admin.connection() as conn:
            after = {"account_id": account_id}
            await record(conn, admin.actor, "delete", "conversation", conversation_id, before=after)


async def caught_up(admin: Admin) -> None:
    """Wait, 10 s at most, until the read model tells of all that is in the log now. Raises Unavailable."""
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
