"""How far EVENTS was fed: it says so itself, but for the case that it is empty."""

from msgspec.structs import replace

from bus import Feed, FeedEnd
from conversations.event_store.feed_reader import kept_from, last_fed
from runtime.postgres import Pool


async def end_of_feed(feed: Feed, pool: Pool) -> FeedEnd:
    """Where EVENTS ends, and the log position up to which it was fed or need not be.

    A new or wiped stream is to get what it would have kept. Raises BusUnavailable, DatabaseUnavailable.
    """
    end = await feed.end()
    if end.position > 0:
        return end
    # All its messages were removed, by age or by hand; a wiped stream begins at sequence 0 again.
    position = await (last_fed(pool) if end.sequence > 0 else kept_from(pool))
    return replace(end, position=position)
