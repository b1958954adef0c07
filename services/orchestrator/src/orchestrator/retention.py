"""Removes conversations that no list shows (`queries.unlisted`), a while after their last event, and forks
that were not finished.

Every worker does so. Of two that come to the same conversation one finds it erased.
"""

import asyncio
import os

from bus import BusUnavailable
from contracts.messages import EraseConversation
from conversations.queries.unlisted import unlisted
from orchestrator.orchestrator_services import Parts
from orchestrator.rpc.erasing import erase
from orchestrator.rpc.fork_command import remove_abandoned
from runtime import logs
from runtime.postgres import DatabaseUnavailable

_LOOK_SECONDS = 60.0


async def keep_removing(parts: Parts, kept_seconds: float) -> None:
    """Until cancelled."""
    log = logs.get_logger("retention")
    while True:
        await asyncio.sleep(min(_LOOK_SECONDS, kept_seconds))
        try:
            removed = await remove_unlisted(parts, kept_seconds)
            if removed:
                log.info("unlisted_removed", conversations=removed)
            if abandoned := await remove_abandoned(parts.pool, parts.store):
                log.info("unfinished_forks_removed", conversations=abandoned)
        except (DatabaseUnavailable, BusUnavailable) as error:
            log.warning("unlisted_not_removed", reason=str(error))
        except Exception:
            log.exception("unlisted_not_removed")


async def remove_unlisted(parts: Parts, kept_seconds: float) -> int:
    """Erase those of which nothing was stored for so long; returns how many.

    Raises DatabaseUnavailable, BusUnavailable.
    """
    removed = 0
    async for each in unlisted(parts.pool, idle_seconds=kept_seconds):
        command = EraseConversation(
            trace_id=os.urandom(16).hex(), account_id=each.account_id, conversation_id=each.conversation_id
        )
        removed += await erase(parts, command)
    return removed
