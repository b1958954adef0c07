"""What waits in a work queue because no worker has had a slot for it."""

from datetime import datetime

import msgspec

from bus import streams
from bus.jetstream import JetStream


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """`waiting` messages were never delivered; the oldest has waited so many seconds by the server's clock.

    What was delivered and put back does not count.
    """

    waiting: int
    oldest_seconds: float = 0.0


async def backlog_of(jetstream: JetStream, stream: str) -> Backlog:
    """The backlog of a work queue's one consumer. Raises BusUnavailable."""
    consumer = streams.CONSUMERS[stream]["name"]
    state = await jetstream.call(f"CONSUMER.INFO.{stream}.{consumer}")
    jetstream.check(state, consumer)
    if state.num_pending == 0 or state.delivered is None:
        return Backlog(waiting=0)
    oldest = await jetstream.next_message(stream, ">", state.delivered.stream_seq + 1)
    if oldest is None:  # taken meanwhile
        return Backlog(waiting=0)
    stored_at = datetime.fromisoformat(oldest.headers["nats-time-stamp"])
    age = (datetime.fromisoformat(state.ts) - stored_at).total_seconds()
    return Backlog(waiting=state.num_pending, oldest_seconds=max(0.0, age))
