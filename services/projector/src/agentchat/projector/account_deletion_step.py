"""Delete accounts on request: erase their conversations, some at a time, then delete the account.

Nothing is written down in between: the conversations that are not erased are the remaining work.
"""

import asyncio
import os

from agentchat.bus.bus import Bus
from agentchat.bus.commands import erase_conversation
from agentchat.conversations.erasures import list_unerased_conversations
from agentchat.conversations.event_store.log import Log
from agentchat.conversations.projections.conversations_table import is_behind
from agentchat.directory.account_deletions import delete_account, list_accounts_to_delete
from agentchat.runtime.logs import get_logger
from agentchat.runtime.postgres import Pool, acquire_connection

POLL_SECONDS = 2.0
CONVERSATIONS_AT_ONCE = 50
_COMMANDS_AT_ONCE = 4


class AccountDeletionStep:
    """Erases some conversations of each account to delete, at each step."""

    def __init__(self, bus: Bus, log: Log, pool: Pool) -> None:
        self._bus, self._log, self._pool = bus, log, pool
        self._logger = get_logger("agentchat.projector.account_deletion_step")

    async def step(self) -> bool:
        """Advance each deletion; return True if more can be done at once.

        Raises BusUnavailable, DatabaseUnavailable.
        """
        return any([await self._advance(each) for each in await list_accounts_to_delete(self._pool)])

    async def _advance(self, account_id: str) -> bool:
        head = await self._log.read_head()  # read first: no conversation of the account begins any more
        found = await list_unerased_conversations(self._pool, account_id, limit=CONVERSATIONS_AT_ONCE)
        if not found:
            async with acquire_connection(self._pool) as conn:
                if await is_behind(conn, head):
                    return False
            await delete_account(self._pool, account_id)
            self._logger.info("account_deleted", account_id=account_id)
            return False
        outcomes: list[bool] = []
        for start in range(0, len(found), _COMMANDS_AT_ONCE):
            erasing = (self._erase(account_id, each) for each in found[start : start + _COMMANDS_AT_ONCE])
            outcomes += await asyncio.gather(*erasing)
        self._logger.info("account_conversations_erased", account_id=account_id, erased=sum(outcomes))
        return any(outcomes)

    async def _erase(self, account_id: str, conversation_id: str) -> bool:
        return await erase_conversation(
            self._bus.rpc, account_id, conversation_id, trace_id=os.urandom(16).hex()
        )
