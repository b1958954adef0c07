"""The one package that uses NATS: streams and consumers, work queues, the trace channel, request and reply,
the feed.

`Bus.connect` opens it; its parts are `queues`, `traces`, `rpc`, `feed` and `eraser`, and callers get the part
that they need. NATS may be wiped at any time: the streams are made again, and what was accepted is in
Postgres.
"""

from bus.bus import Bus
from bus.commands import (
    check_agent,
    decide_approval,
    describe_conversation,
    erase_conversation,
    fork_conversation,
    give_feedback,
    list_tools,
)
from bus.delivery import Delivery
from bus.eraser import Eraser
from bus.errors import BusUnavailable, Declined, FeedConflict, MessageTooLarge
from bus.feed_stream import EventSelection, Feed
from bus.positions import FeedEnd
from bus.queues import Backlog, Exhausted, Queues
from bus.rpc import Rpc
from bus.subscription import Subscription
from bus.traces import Traces

__all__ = [
    "Backlog",
    "Bus",
    "BusUnavailable",
    "Declined",
    "Delivery",
    "Eraser",
    "EventSelection",
    "Exhausted",
    "Feed",
    "FeedConflict",
    "FeedEnd",
    "MessageTooLarge",
    "Queues",
    "Rpc",
    "Subscription",
    "Traces",
    "check_agent",
    "decide_approval",
    "describe_conversation",
    "erase_conversation",
    "fork_conversation",
    "give_feedback",
    "list_tools",
]
