"""The EVENTS stream: every stored event once, in log order, and how far that has come."""

from bus.errors import FeedConflict
from bus.jetstream import JetStream
from contracts import subjects


async def publish_event(
    jetstream: JetStream,
    subject: str,
    data: bytes,
    headers: dict[str, str],
    *,
    message_id: str,
    expected_last_sequence: int,
) -> int:
    """Append one event behind sequence `expected_last_sequence`; returns its own sequence.

    Raises FeedConflict when the stream does not end there (somebody else leads), BusUnavailable when it is
    unknown whether the event was stored; it may be repeated with the same `message_id`.
    """
    expectation = {"Nats-Expected-Last-Sequence": str(expected_last_sequence)}
    try:
        return await jetstream.publish(subject, data, message_id, {**headers, **expectation})
    except FeedConflict:
        # The server compares sequences before it looks for a duplicate: an earlier try may have been stored.
        stored = await jetstream.message(subjects.EVENTS, expected_last_sequence + 1)
        if stored is None or stored.headers.get("nats-msg-id") != message_id:
            raise
        return stored.sequence


async def last_event(jetstream: JetStream) -> tuple[int, int]:
    """(last sequence of EVENTS, log position of its newest message).

    The position is 0 where EVENTS holds no message: (0, 0) is a new or wiped stream, (n, 0) one whose
    messages were all removed, by age or by erasure.
    """
    message = await jetstream.last_message(subjects.EVENTS, "chat.events.>")
    sequence = await jetstream.last_sequence(subjects.EVENTS)
    if message is None:
        return sequence, 0
    return sequence, int(message.headers.get(subjects.POSITION_HEADER.lower(), "0"))
