"""Time travel: a conversation as it was at a version or at a time. The same fold, cut short."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from contracts import events
from conversations.aggregate.conversation import Conversation, fold
from conversations.event_store.log import Log, LogEntry, at_version_of

VersionOrTime = int | datetime
"""A version (that of the last event that counts), or a time (events at it count)."""

WRONG_VERSION_OR_TIME = "must be a version, such as 12, or a time in ISO 8601, such as 2026-11-21T09:30:00Z"
_ERASED = "conversation_erased.v1"
_VERSION = re.compile(r"[0-9]{1,18}\Z")


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation at a place, and the entries that led to it; `head` is its version now.

    One that has been erased has no past: it is what it is now, at every place.
    """

    conversation: Conversation
    entries: tuple[LogEntry, ...]
    head: int


def parse_version_or_time(text: str) -> VersionOrTime:
    """A place as people write it; a time without an offset is UTC. Raises ValueError."""
    if text.isascii() and _VERSION.match(text):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(WRONG_VERSION_OR_TIME) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def log_time(text: str) -> str:
    """A time in ISO 8601 as events have it: UTC, with microseconds. Raises ValueError."""
    time = datetime.fromisoformat(text)
    utc = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return utc.isoformat(timespec="microseconds").replace("+00:00", "Z")


async def past_of(log: Log, conversation_id: str, place: VersionOrTime | None = None) -> Past:
    """The conversation at a place, or now; a place after its end is its end, before its beginning nothing.

    Raises DatabaseUnavailable, UnreadableEvent.
    """
    entries = await log.rows(conversation_id)
    head = entries[-1].version if entries else 0
    if entries and entries[-1].topic == _ERASED:
        place = None
    read = list(_up_to(entries, place))
    kept = [entry for entry, _ in read]
    conversation = at_version_of(fold(conversation_id, (event for _, event in read)), kept)
    return Past(conversation=conversation, entries=tuple(kept), head=head)


def _up_to(entries: Iterable[LogEntry], at: VersionOrTime | None) -> Iterator[tuple[LogEntry, events.Event]]:
    """What lies after `at` is not even decoded, but for one event."""
    for entry in entries:
        if isinstance(at, int) and entry.version > at:
            return
        event = entry.event
        if isinstance(at, datetime) and datetime.fromisoformat(event.at) > at:
            return
        yield entry, event
