"""Delete end users on request: erase their conversations, some at a time, then forget their names.

Nothing is written down in between: the conversations that are not erased are the remaining work.
"""

import asyncio
import os

from agentchat.bus.bus import Bus
from agentchat.bus.commands import erase_conversation
from agentchat.conversations.event_store.log import Log
from agentchat.conversations.projections.conversations_table import is_behind
from agentchat.conversations.queries.user_summaries import list_conversations_of_user
from agentchat.conversations.user_deletions import UserDeletion, finish_user_deletion, list_users_to_delete
from agentchat.runtime.logs import get_logger
from agentchat.runtime.postgres import Pool, acquire_connection

POLL_SECONDS = 2.0
CONVERSATIONS_AT_ONCE = 50
_COMMANDS_AT_ONCE = 4


class UserDeletionStep:
    """Erases some conversations of each user to delete, at each step."""

    def __init__(self, bus: Bus, log: Log, pool: Pool) -> None:
        self._bus, self._log, self._pool = bus, log, pool
        self._logger = get_logger("agentchat.projector.user_deletion_step")

    async def step(self) -> bool:
        """Advance each deletion; return True if more can be done at once.

        Raises BusUnavailable, DatabaseUnavailable.
        """
        return any([await self._advance(each) for each in await list_users_to_delete(self._pool)])

    async def _advance(self, deletion: UserDeletion) -> bool:
        account_id, user_id = deletion.account_id, deletion.user_id
        head = await self._log.read_head()
        found = await list_conversations_of_user(self._pool, account_id, user_id, limit=CONVERSATIONS_AT_ONCE)
        if found:
            erased = 0
            for start in range(0, len(found), _COMMANDS_AT_ONCE):
                erasing = (self._erase(account_id, each) for each in found[start : start + _COMMANDS_AT_ONCE])
                erased += sum(await asyncio.gather(*erasing))
            self._logger.info("user_conversations_erased", account_id=account_id, erased=erased)
            return erased > 0
        async with acquire_connection(self._pool) as conn:
            if await is_behind(conn, head) or await is_behind(conn, head, "runs"):
                return False
        await finish_user_deletion(self._pool, deletion)
        self._logger.info("user_deleted", account_id=account_id)
        return False

    async def _erase(self, account_id: str, conversation_id: str) -> bool:
        return await erase_conversation(
            self._bus.rpc, account_id, conversation_id, trace_id=os.urandom(16).hex()
        )
