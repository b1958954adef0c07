"""Copies every stored event into EVENTS, once and in log order.

Where it goes on is read from the newest message in EVENTS, and each publication states what it goes behind:
of two leaders that overlap, one is refused and looks again. An event is published as it is stored.
"""

import asyncio
import time
from collections.abc import Sequence

from bus import Bus, FeedConflict
from contracts import subjects
from conversations.log import Log, LogEntry
from conversations.mapper import event_name
from conversations.owners import Owners
from projector.feed_position import last_fed, remember_fed
from runtime.logs import get_logger
from runtime.postgres import Pool

BATCH = 200
_REMEMBER_SECONDS = 5.0
_NO_ACCOUNT = "unknown"
_EXPECTED_LAST_MESSAGE = "Nats-Expected-Last-Msg-Id"


class Feed:
    """The place in EVENTS, and the steps that go on from it."""

    def __init__(self, bus: Bus, log: Log, pool: Pool) -> None:
        self._bus = bus
        self._log = log
        self._pool = pool
        self._owners = Owners(log)
        self._place: tuple[int, int] | None = None  # the last sequence in EVENTS, the last position fed
        self._remembered = (0, 0.0)  # the position, when
        self._logger = get_logger("projector.feed")

    async def step(self) -> int:
        """Publish the next batch; returns its size, less than BATCH at the end of the log.

        Raises BusUnavailable, StoreUnavailable, and FeedConflict where somebody else publishes.
        """
        place, self._place = self._place, None  # to be looked up again, should anything fail
        sequence, position = place or await self._find()
        entries = await self._log.read(position, BATCH)
        if entries:
            await self._publish(sequence, entries)
            sequence, position = sequence + len(entries), entries[-1].position
        await self._remember(position)
        self._place = (sequence, position)
        return len(entries)

    async def _find(self) -> tuple[int, int]:
        sequence, position = await self._bus.last_event()
        if position == 0 and sequence > 0:
            # All its messages were removed, by age or by erasure. A wiped stream begins at sequence 0 again.
            position = await last_fed(self._pool)
        head = await self._log.head()
        if position > head:
            self._logger.error("feed_ahead_of_log", position=position, head=head)
            position = head
        self._logger.info("feed_goes_on", sequence=sequence, position=position)
        return sequence, position

    async def _publish(self, sequence: int, entries: Sequence[LogEntry]) -> None:
        """All at once, each stating its place and the event before it.

        Both are needed: with the place alone, an event whose predecessor was refused could be taken, because
        the message that stands in the predecessor's place has made the sequence right.
        """
        accounts = await self._owners.of(entries)
        results = await asyncio.gather(
            *(
                self._publish_one(
                    entry,
                    accounts.get(entry.conversation_id, _NO_ACCOUNT),
                    sequence + place,
                    entries[place - 1] if place else None,
                )
                for place, entry in enumerate(entries)
            ),
            return_exceptions=True,
        )
        for expected, result in enumerate(results, start=sequence + 1):
            if isinstance(result, BaseException):
                raise result
            if result != expected:
                raise FeedConflict(expected - 1)

    async def _publish_one(
        self, entry: LogEntry, account_id: str, behind: int, before: LogEntry | None
    ) -> int:
        headers = {
            subjects.CONVERSATION_HEADER: entry.conversation_id,
            subjects.POSITION_HEADER: str(entry.position),
        }
        if before is not None:
            headers[_EXPECTED_LAST_MESSAGE] = str(before.position)
        return await self._bus.publish_event(
            subjects.events(account_id, event_name(entry.topic)),
            entry.state,
            headers,
            message_id=str(entry.position),
            expected_last_sequence=behind,
        )

    async def _remember(self, position: int) -> None:
        kept, at = self._remembered
        if position != kept and time.monotonic() - at > _REMEMBER_SECONDS:
            await remember_fed(self._pool, position)
            self._remembered = (position, time.monotonic())
