"""Beginning a conversation with a copy of another one's past, on its account's command.

All of it in one append: the fork is there whole, or not at all. Its source is only read.
"""

import asyncio

from contracts.messages import ForkAnswered, ForkConversation
from conversations.aggregate import forking
from conversations.database import server_now
from conversations.errors import UnreadableEvent, VersionConflict
from conversations.event_store import mapper
from conversations.event_store.log import Log, LogEntry
from orchestrator.parts import Parts
from runtime.logs import get_logger


async def fork(parts: Parts, command: ForkConversation) -> ForkAnswered:
    """Obey it once, however often it is given. Raises StoreUnavailable."""
    log = Log(parts.pool)
    while True:
        try:
            if answered := forking.answer_of(await log.events(command.conversation_id), command):
                return answered
            source, now = await log.rows(command.source_id), await server_now(parts.pool)
            # Beside the event loop: it may be thousands of events.
            decided = await asyncio.to_thread(_decided, source, command, now)
        except UnreadableEvent as error:
            get_logger("commands").warning("fork_unreadable", reason=str(error))
            return ForkAnswered(outcome="unreadable")
        if isinstance(decided, ForkAnswered):
            return decided
        try:
            await parts.store.append_stored(command.conversation_id, 0, decided)
        except VersionConflict:
            continue
        return ForkAnswered(outcome="forked", version=len(decided))


def _decided(
    source: list[LogEntry], command: ForkConversation, now: str
) -> list[tuple[str, bytes]] | ForkAnswered:
    """What is to be stored. Raises UnreadableEvent."""
    sizes = [len(entry.state) for entry in source]
    decided = forking.fork([entry.event for entry in source], sizes, command, now)
    return decided if isinstance(decided, ForkAnswered) else mapper.stored(decided)
