"""Where events are in EVENTS: its end, and the sequence of a log position."""

from collections.abc import Callable

import msgspec

from agentchat.bus.errors import BusUnavailable
from agentchat.bus.jetstream import JetStream, StoredMessage
from agentchat.contracts import subjects

EVERY_EVENT = "chat.events.>"
MESSAGE_ID = "Nats-Msg-Id"


class FeedEnd(msgspec.Struct, frozen=True, kw_only=True):
    """Where EVENTS ends: the last sequence that it gave, and the log position of its newest message.

    The position is 0 where EVENTS holds no message: with sequence 0 it is new or wiped, with another its
    messages were all removed, by age or by hand. `edition` stands after the position in message ids. It
    changes when EVENTS is emptied to be fed again, because the server goes on knowing the ids of what it
    removed for two minutes, and would take the same events for duplicates.
    """

    sequence: int
    position: int
    edition: str = ""

    def message_id(self, position: int) -> str:
        return f"{position}{self.edition}"


async def feed_end(jetstream: JetStream) -> FeedEnd:
    """Where EVENTS ends now; it is made again should it be gone."""
    try:
        return await _feed_end(jetstream)
    except BusUnavailable:
        await jetstream.provision()
        return await _feed_end(jetstream)


async def _feed_end(jetstream: JetStream) -> FeedEnd:
    # In this order: what is published in between is the newest message, and says its own sequence.
    sequence, _ = await jetstream.state(subjects.EVENTS)
    message = await jetstream.last_message(subjects.EVENTS, EVERY_EVENT)
    if message is None:
        return FeedEnd(sequence=sequence, position=0)
    _, mark, edition = message.headers.get(MESSAGE_ID, "").partition(".")
    return FeedEnd(
        sequence=max(sequence, message.sequence), position=position_of(message), edition=mark + edition
    )


async def first_where(
    jetstream: JetStream, reached: Callable[[StoredMessage], bool], low: int, high: int
) -> StoredMessage | None:
    """The first event that `reached` holds for, as for all after it: a search by halves of sequences.

    It is sought from sequence `low` on, and is at `high` at the latest. Mostly the first look finds it.
    """
    found = await jetstream.next_message(subjects.EVENTS, EVERY_EVENT, low)
    if found is None or reached(found):
        return found
    low = found.sequence + 1
    while low < high:
        middle = (low + high) // 2
        found = await jetstream.next_message(subjects.EVENTS, EVERY_EVENT, middle)
        if found is None or reached(found):
            high = middle
        else:
            low = found.sequence + 1
    return await jetstream.next_message(subjects.EVENTS, EVERY_EVENT, low)


def position_of(message: StoredMessage) -> int:
    return int(message.headers.get(subjects.POSITION_HEADER, "0"))
