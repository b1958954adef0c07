"""Delete accounts and end users on request: erase their conversations, some at a time, then the rest of them.

Nothing is written down in between: the conversations that are not erased are the remaining work.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from agentchat.bus.bus import Bus
from agentchat.bus.commands import erase_conversation
from agentchat.bus.errors import BusUnavailable
from agentchat.conversations.erasures import list_unerased_conversations
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.projections.conversations_table import is_behind
from agentchat.conversations.queries.user_summaries import list_conversations_of_user
from agentchat.conversations.user_deletion_requests import (
    UserDeletion,
    finish_user_deletion,
    list_feedback_of_user,
    list_users_to_delete,
)
from agentchat.directory.account_deletions import delete_account, list_accounts_to_delete
from agentchat.files.file_removal import remove_files_of_owner
from agentchat.files.object_store import ObjectStore
from agentchat.projector.feed_publisher import find_feed_end
from agentchat.runtime.logs import get_logger
from agentchat.runtime.postgres import Pool, acquire_connection
from agentchat.webhooks.delivery_queue import erase_bodies_of_events, erase_budgets_of_user

POLL_SECONDS = 2.0
CONVERSATIONS_AT_ONCE = 50
_COMMANDS_AT_ONCE = 4


async def erase_conversations(
    bus: Bus, account_id: str, conversation_ids: Sequence[str], *, idle_since: str | None = None
) -> int:
    """Erase conversations, a few at a time; return how many were erased.

    With `idle_since`, those in use since then stay. Raises BusUnavailable if one was not erased; the others
    are.
    """

    async def erase(conversation_id: str) -> bool:
        trace_id = os.urandom(16).hex()
        return await erase_conversation(
            bus.rpc, account_id, conversation_id, trace_id=trace_id, idle_since=idle_since
        )

    outcomes: list[bool | BaseException] = []
    for start in range(0, len(conversation_ids), _COMMANDS_AT_ONCE):
        some = map(erase, conversation_ids[start : start + _COMMANDS_AT_ONCE])
        outcomes += await asyncio.gather(*some, return_exceptions=True)
    for each in outcomes:
        if isinstance(each, BaseException):
            raise each
    return sum(each is True for each in outcomes)


class DeletionStep:
    """Erases some conversations of each account and user to delete, at each step."""

    def __init__(self, bus: Bus, log: Log, pool: Pool, objects: ObjectStore) -> None:
        self._bus, self._log, self._pool, self._objects = bus, log, pool, objects
        self._logger = get_logger("agentchat.projector.delete_users_and_accounts")

    async def step(self) -> bool:
        """Advance each deletion; return True if more can be done at once.

        Raises BusUnavailable if one was not advanced, DatabaseUnavailable.
        """
        advances = [partial(self._delete_account, each) for each in await list_accounts_to_delete(self._pool)]
        advances += [partial(self._delete_user, each) for each in await list_users_to_delete(self._pool)]
        advanced, failed = False, None
        for advance in advances:
            try:
                advanced = await advance() or advanced
            except BusUnavailable as error:  # such as of one conversation: the others do not wait for it
                failed = error
        if failed is not None:
            raise failed
        return advanced

    async def _delete_account(self, account_id: str) -> bool:
        head = await self._log.read_head()  # read first: no conversation of the account begins any more
        found = await list_unerased_conversations(self._pool, account_id, limit=CONVERSATIONS_AT_ONCE)
        return await self._advance(account_id, head, found, partial(self._finish_account, account_id))

    async def _delete_user(self, user: UserDeletion) -> bool:
        head = await self._log.read_head()
        found = await list_conversations_of_user(
            self._pool, user.account_id, user.user_id, limit=CONVERSATIONS_AT_ONCE
        )
        return await self._advance(user.account_id, head, found, partial(self._finish_user, user))

    async def _finish_user(self, user: UserDeletion) -> bool:
        """Remove the rest of a user: files, then feedback, whose copies in EVENTS must be there first."""
        await remove_files_of_owner(self._pool, self._objects, user.account_id, user.user_id)
        feedback = await list_feedback_of_user(self._pool, user)
        if positions := [each.position for each in feedback]:
            if (await find_feed_end(self._bus.feed, self._pool)).position < max(positions):
                return False
            await self._bus.eraser.erase_events(positions)
        async with acquire_connection(self._pool) as conn, conn.transaction():
            conversations = [each.conversation_id for each in feedback]
            await erase_bodies_of_events(conn, conversations, positions)
            await erase_budgets_of_user(conn, user.account_id, user.user_id)
            await finish_user_deletion(conn, user, feedback)
        return True

    async def _finish_account(self, account_id: str) -> bool:
        await remove_files_of_owner(self._pool, self._objects, account_id)
        await delete_account(self._pool, account_id)
        return True

    async def _advance(
        self, account_id: str, head: int, found: Sequence[str], finish: Callable[[], Awaitable[bool]]
    ) -> bool:
        """Erase these conversations, or finish if there are none and the read models are at `head`."""
        erased = await erase_conversations(self._bus, account_id, found)
        if found:
            self._logger.info("conversations_erased", account_id=account_id, erased=erased)
        elif not await self._is_behind(head) and await finish():
            self._logger.info("deletion_finished", account_id=account_id)
        return erased > 0

    async def _is_behind(self, head: int) -> bool:
        async with acquire_connection(self._pool) as conn:
            return await is_behind(conn, head) or await is_behind(conn, head, "runs")
