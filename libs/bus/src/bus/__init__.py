"""The only door to NATS: streams and consumers, work queues, the trace channel, request and reply, the feed.

`Bus.connect` opens it; everything else is a method of `Bus`. NATS may be wiped at any time: the streams are
made anew, and what was accepted is in Postgres.
"""

from bus.backlog import Backlog
from bus.bus import Bus
from bus.commands import erase_conversation
from bus.dead import Exhausted
from bus.delivery import Delivery
from bus.errors import BusUnavailable, FeedConflict
from bus.feed import FeedEnd
from bus.follow import Wanted
from bus.subscription import Subscription

__all__ = [
    "Backlog",
    "Bus",
    "BusUnavailable",
    "Delivery",
    "Exhausted",
    "FeedConflict",
    "FeedEnd",
    "Subscription",
    "Wanted",
    "erase_conversation",
]
