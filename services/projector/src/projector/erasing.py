"""Removes what is left of erased conversations outside the log and the read models: on NATS, and in tables.

The log lost their events when ConversationErased was appended, and wrote down what is to be done here. It is
done in two passes, each safe to repeat: at once, and a minute later for what a paused worker has said since.
"""

from bus import Bus
from conversations.erasures import Erasure, due_erasures, end_pass, forget_rows
from projector.feed_position import end_of_feed
from runtime.logs import bound, get_logger
from runtime.postgres import Pool

BATCH = 50
OVERWRITTEN = 200
"""Up to so many events in one step are overwritten on NATS too; of more, only the messages are removed."""


class Erasing:
    """The steps of all erasures that are due."""

    def __init__(self, bus: Bus, pool: Pool) -> None:
        self._bus = bus
        self._pool = pool
        self._logger = get_logger("projector.erasing")

    async def step(self) -> int:
        """One pass of each erasure that is due, up to BATCH; returns how many there were.

        An erasure that EVENTS has not come to yet is left for the next step, and does not count. Raises
        BusUnavailable, StoreUnavailable.
        """
        due = await due_erasures(self._pool, limit=BATCH)
        if not due:
            return 0
        fed = await end_of_feed(self._bus, self._pool)
        ready = [erasure for erasure in due if erasure.position <= fed.position]
        overwrite = sum(len(erasure.positions) for erasure in ready) <= OVERWRITTEN
        for erasure in ready:
            with bound(conversation_id=erasure.conversation_id):
                await self._erase(erasure, overwrite)
        return len(ready)

    async def _erase(self, erasure: Erasure, overwrite: bool) -> None:
        await self._bus.forget_events(erasure.positions, overwrite=overwrite)
        await self._bus.forget_runs(erasure.trace_ids)
        if erasure.passes > 0:  # before, a request in line is about to be refused by its worker
            await self._bus.forget_mentions(erasure.conversation_id)
        await forget_rows(self._pool, erasure)
        await end_pass(self._pool, erasure)
        self._logger.info("conversation_erased", events=len(erasure.positions), passes=erasure.passes + 1)
