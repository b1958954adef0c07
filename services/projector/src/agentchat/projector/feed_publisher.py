"""Copy every stored event into EVENTS, once and in log order.

The newest message in EVENTS says where to continue, and each publication states the message that it follows:
if two publishers overlap, one is refused and looks again. Events are published as
`conversations.event_store.feed_reader` gives them.
"""

import time
from collections.abc import Callable

from msgspec.structs import replace

from agentchat.bus.bus import Bus
from agentchat.bus.errors import FeedConflict
from agentchat.bus.feed_seek import FeedEnd
from agentchat.bus.feed_stream import Feed
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.event_store.feed_reader import (
    FeedReader,
    find_kept_position,
    read_fed_position,
    store_fed_position,
)
from agentchat.conversations.projections import read_model_follower
from agentchat.runtime import failpoints
from agentchat.runtime.logs import get_logger
from agentchat.runtime.postgres import Pool

BATCH = read_model_follower.BATCH
"""The batch of the read models, which read the same pages."""

LOOK_SECONDS = 5.0
"""After this time without an event, EVENTS is checked.

It may have been lost, or fed again by hand.
"""

_REMEMBER_SECONDS = 5.0
_ERASED = "ConversationErased"


class FeedPublisher:
    """The place in EVENTS, and the steps that continue from it.

    `on_erasure` is called after an erasure.
    """

    def __init__(
        self,
        bus: Bus,
        log: Log,
        pool: Pool,
        *,
        look_seconds: float = LOOK_SECONDS,
        on_erasure: Callable[[], None] = lambda: None,
    ) -> None:
        self._bus = bus
        self._log = log
        self._pool = pool
        self._look_seconds = look_seconds
        self._on_erasure = on_erasure
        self._reader = FeedReader(log)
        self._end: FeedEnd | None = None
        self._seen_at = 0.0  # when the end was last verified
        self._remembered = (0, 0.0)  # the position, when
        self._logger = get_logger("agentchat.projector.feed_publisher")
        bus.on_reconnect(self._forget)

    def forget_end(self) -> None:
        """Look again where EVENTS ends before the next step: the log may be another one."""
        self._end = None

    async def step(self) -> bool:
        """Publish the next batch; return True if the log has more.

        Raises BusUnavailable, DatabaseUnavailable, and FeedConflict if somebody else publishes.
        """
        end, self._end = self._end, None  # looked up again if anything fails
        if end is None or time.monotonic() - self._seen_at > self._look_seconds:
            end = await self._find(end)
        page = await self._reader.read(end.position, BATCH)
        if page.events:
            failpoints.reach("projector-before-feed")
            end = await self._bus.feed.publish_events(page.events, end)
            failpoints.reach("projector-fed")
            self._seen_at = time.monotonic()
            if any(event.name == _ERASED for event in page.events):
                self._on_erasure()
        await self._remember(end.position)
        self._end = end
        return not page.is_last

    async def _find(self, known: FeedEnd | None) -> FeedEnd:
        end = await find_feed_end(self._bus.feed, self._pool)
        head = await self._log.read_head()
        self._seen_at = time.monotonic()
        if known is not None and known.sequence == end.sequence:
            return known  # also if its messages were removed since
        if end.position > head:
            # The database has lost events and would reuse their positions: run `agentchat repair`.
            self._logger.error("feed_ahead_of_log", position=end.position, head=head)
            raise FeedConflict(end.sequence)
        self._logger.info("feed_resumed", sequence=end.sequence, position=end.position)
        return end

    async def _remember(self, position: int) -> None:
        kept, at = self._remembered
        if position != kept and time.monotonic() - at > _REMEMBER_SECONDS:
            await store_fed_position(self._pool, position)
            self._remembered = (position, time.monotonic())

    def _forget(self) -> None:
        """Check EVENTS at the next step: NATS may have come back with another one."""
        self._seen_at = 0.0


async def find_feed_end(feed: Feed, pool: Pool) -> FeedEnd:
    """Find the end of EVENTS, and the log position up to which it was fed or need not be.

    A new or wiped stream gets what it would have kept. Raises BusUnavailable, DatabaseUnavailable.
    """
    end = await feed.find_end()
    if end.position > 0:
        return end
    # Its messages were removed by age or by hand; a wiped stream begins at sequence 0.
    position = await (read_fed_position(pool) if end.sequence > 0 else find_kept_position(pool))
    return replace(end, position=position)
