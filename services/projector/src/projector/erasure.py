"""Removes what is left of erased conversations outside the log and the read models: on NATS, and in tables.

Their rows leave the log when ConversationErased is appended or, of a long conversation, in pieces after it,
and each piece writes down what is to be done here. It is done in two passes, each safe to repeat: at once,
and a minute later for what a paused worker has sent since. A pass begins with what others may be about to
read, and then takes the events out of EVENTS, so many a step.
"""

import asyncio
from collections.abc import Iterable, Sequence

from bus.bus import Bus
from conversations.erased_rows import delete_old_tombstones, erase_piece
from conversations.erasures import Erasure, due_erasures, end_pass, forget_rows, note_progress
from projector.feed_publisher import end_of_feed
from runtime.logs import bound, get_logger
from runtime.postgres import Pool

BATCH = 50
POLL_SECONDS = 2.0
"""A second pass is looked for so often; the first follows upon the feed."""

PIECES_PAUSE_SECONDS = 0.01
"""Between two pieces of rows, so that they do not take all of the server's time."""

TOMBSTONES_POLL_SECONDS = 3600.0

EVENTS_AT_ONCE = 200
"""So many events a step are overwritten in EVENTS: two seconds' work for the server, which has other work."""


async def erase_rows(pool: Pool) -> int:
    """The step that deletes a piece of the rows of an erased conversation; 0 where there is none.

    Raises DatabaseUnavailable.
    """
    if not await erase_piece(pool):
        return 0
    await asyncio.sleep(PIECES_PAUSE_SECONDS)
    return 1


async def delete_tombstones(pool: Pool) -> int:
    """Delete some of the tombstones that are weeks old and return how many. Raises DatabaseUnavailable."""
    deleted = await delete_old_tombstones(pool)
    if deleted:
        get_logger("projector.erasure").info("tombstones_deleted", conversations=deleted)
        await asyncio.sleep(PIECES_PAUSE_SECONDS)
    return deleted


class ErasureStep:
    """The steps of all erasures that are due."""

    def __init__(self, bus: Bus, pool: Pool) -> None:
        self._bus = bus
        self._pool = pool
        self._logger = get_logger("projector.erasure")

    async def step(self) -> int:
        """One pass, or a part of it, of up to BATCH erasures that are due; returns of how many.

        An erasure that EVENTS has not come to yet is left for a later step, and does not count. Raises
        BusUnavailable, DatabaseUnavailable.
        """
        due = await due_erasures(self._pool, limit=BATCH)
        if not due:
            return 0
        fed = await end_of_feed(self._bus.feed, self._pool)
        parts = _parts(erasure for erasure in due if erasure.position <= fed.position)
        await self._begin([erasure for erasure, _ in parts if erasure.forgotten == 0])
        for erasure, end in parts:
            with bound(conversation_id=erasure.conversation_id):
                await self._go_on(erasure, end)
        return len(parts)

    async def _begin(self, erasures: Sequence[Erasure]) -> None:
        """All in one go: the queues and DEAD are read through for it."""
        trace_ids = [trace_id for erasure in erasures for trace_id in erasure.trace_ids]
        # In the first pass a request in line is about to be refused by its worker.
        late = [erasure.conversation_id for erasure in erasures if erasure.passes > 0]
        await self._bus.eraser.erase_runs(trace_ids)
        await self._bus.eraser.erase_mentions([*trace_ids, *late])

    async def _go_on(self, erasure: Erasure, end: int) -> None:
        await self._bus.eraser.erase_events(erasure.positions[erasure.forgotten : end])
        if end < len(erasure.positions):
            await note_progress(self._pool, erasure, end)
            return
        await forget_rows(self._pool, erasure)
        await end_pass(self._pool, erasure)
        fields = {"events": len(erasure.positions), "piece": erasure.piece, "passes": erasure.passes + 1}
        self._logger.info("conversation_erased", **fields)


def _parts(erasures: Iterable[Erasure]) -> list[tuple[Erasure, int]]:
    """Those that one step has the time for, and up to which of its positions each is to come."""
    parts, room = [], EVENTS_AT_ONCE
    for erasure in erasures:
        if room == 0:
            break
        end = min(len(erasure.positions), erasure.forgotten + room)
        room -= end - erasure.forgotten
        parts.append((erasure, end))
    return parts
