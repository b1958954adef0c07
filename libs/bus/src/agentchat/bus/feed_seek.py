"""Find places in EVENTS: its end, and the sequence of a log position."""

from collections.abc import Callable

import msgspec

from agentchat.bus.errors import BusUnavailable
from agentchat.bus.jetstream import JetStream, StoredMessage
from agentchat.contracts import subjects

EVERY_EVENT = "chat.events.>"
MESSAGE_ID = "Nats-Msg-Id"


class FeedEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of EVENTS: the last sequence it gave, and the log position of its newest message.

    The position is 0 if EVENTS holds no message: with sequence 0 it is new or wiped, with another one its
    messages were all removed, by age or by hand. `edition` follows the position in message ids. It changes
    when EVENTS is emptied to be fed again, because the server remembers the ids of removed messages for two
    minutes and would take the same events for duplicates.
    """

    sequence: int
    position: int
    edition: str = ""

    def format_message_id(self, position: int) -> str:
        """Return the Nats-Msg-Id of the event at a log position."""
        return f"{position}{self.edition}"


async def find_feed_end(jetstream: JetStream) -> FeedEnd:
    """Return the end of EVENTS; the stream is created again if it is gone."""
    try:
        return await _read_feed_end(jetstream)
    except BusUnavailable:
        await jetstream.provision()
        return await _read_feed_end(jetstream)


async def _read_feed_end(jetstream: JetStream) -> FeedEnd:
    # In this order: a message published in between is then the newest one, and tells its own sequence.
    sequence, _ = await jetstream.get_stream_state(subjects.EVENTS)
    message = await jetstream.get_last_message(subjects.EVENTS, EVERY_EVENT)
    if message is None:
        return FeedEnd(sequence=sequence, position=0)
    _, mark, edition = message.headers.get(MESSAGE_ID, "").partition(".")
    return FeedEnd(
        sequence=max(sequence, message.sequence), position=get_position(message), edition=mark + edition
    )


async def find_first(
    jetstream: JetStream, reached: Callable[[StoredMessage], bool], low: int, high: int
) -> StoredMessage | None:
    """Return the first event for which `reached` is true, as it is for all later ones, by binary search.

    The search starts at sequence `low`; the event is at `high` at the latest. Mostly the first look finds it.
    """
    found = await jetstream.get_next_message(subjects.EVENTS, EVERY_EVENT, low)
    if found is None or reached(found):
        return found
    low = found.sequence + 1
    while low < high:
        middle = (low + high) // 2
        found = await jetstream.get_next_message(subjects.EVENTS, EVERY_EVENT, middle)
        if found is None or reached(found):
            high = middle
        else:
            low = found.sequence + 1
    return await jetstream.get_next_message(subjects.EVENTS, EVERY_EVENT, low)


def get_position(message: StoredMessage) -> int:
    """Return the log position of an event's message."""
    return int(message.headers.get(subjects.POSITION_HEADER, "0"))
