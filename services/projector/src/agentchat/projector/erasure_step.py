"""Remove what is left of erased conversations.

Copies on NATS first, then files, then the rows of the log.
"""

import asyncio

from agentchat.bus.bus import Bus
from agentchat.conversations.erasures import (
    TOMBSTONES_AT_ONCE,
    ErasureChunk,
    delete_old_tombstones,
    finish_chunk,
    list_due_erasures,
    load_chunk,
)
from agentchat.files.file_removal import remove_files_of_conversation
from agentchat.files.object_store import ObjectStore
from agentchat.projector.feed_publisher import find_feed_end
from agentchat.runtime.logs import bind_context, get_logger
from agentchat.runtime.postgres import Pool

BATCH = 50
POLL_SECONDS = 2.0
"""The interval between looks for second passes; the first pass follows the feed."""

PAUSE_SECONDS = 0.01
"""The pause between two deletions of tombstones, so that they do not take all of the server's time."""

TOMBSTONES_POLL_SECONDS = 3600.0

ROWS_AT_ONCE = 200
"""Rows that a step removes. Overwriting one in EVENTS takes the server 10 ms, and it has other work."""


async def delete_tombstones(pool: Pool) -> bool:
    """Delete some of the tombstones that are weeks old; return True if there are more.

    Raises DatabaseUnavailable.
    """
    deleted = await delete_old_tombstones(pool)
    if deleted:
        get_logger("agentchat.projector.erasure_step").info("tombstones_deleted", conversations=deleted)
        await asyncio.sleep(PAUSE_SECONDS)
    return deleted >= TOMBSTONES_AT_ONCE


class ErasureStep:
    """Removes a chunk of each erasure that is due, at each step."""

    def __init__(self, bus: Bus, pool: Pool, objects: ObjectStore) -> None:
        self._bus = bus
        self._pool = pool
        self._objects = objects
        self._logger = get_logger("agentchat.projector.erasure_step")

    async def step(self) -> bool:
        """Remove a chunk of each due erasure; return True if more may be due.

        Raises BusUnavailable, DatabaseUnavailable.
        """
        chunks = await self.erase_due()
        return len(chunks) >= BATCH or any(not chunk.is_last for chunk in chunks)

    async def erase_due(self) -> list[ErasureChunk]:
        """Remove up to ROWS_AT_ONCE rows of up to BATCH due erasures; return what was removed.

        An erasure that EVENTS has not reached yet is left for a later step.
        """
        fed = await find_feed_end(self._bus.feed, self._pool)
        chunks: list[ErasureChunk] = []
        room = ROWS_AT_ONCE
        for erasure in await list_due_erasures(self._pool, fed.position, limit=BATCH):
            if room == 0:
                break
            chunk = await load_chunk(self._pool, erasure, room)
            chunks.append(chunk)
            room -= len(chunk.positions)
        if not chunks:
            return []
        # The queues and DEAD are read once for all of them. In the first pass the worker of a waiting request
        # is about to refuse it.
        trace_ids = [trace_id for chunk in chunks for trace_id in chunk.trace_ids]
        late = [chunk.erasure.conversation_id for chunk in chunks if chunk.erasure.passes > 0]
        await self._bus.eraser.erase_runs(trace_ids)
        await self._bus.eraser.erase_mentions([*trace_ids, *late])
        for chunk in chunks:
            await self._bus.eraser.erase_events(chunk.positions)
            await remove_files_of_conversation(
                self._pool, self._objects, chunk.erasure.conversation_id, chunk.file_ids
            )
            await finish_chunk(self._pool, chunk)
            if chunk.is_last:
                with bind_context(conversation_id=chunk.erasure.conversation_id):
                    self._logger.info("conversation_erased", passes=chunk.erasure.passes + 1)
        return chunks
