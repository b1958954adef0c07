"""Events that EVENTS has and the log has not, since the database has lost them: `agentchat replay lost`."""

import contextlib
import sys
from collections.abc import Iterator, Sequence

import msgspec

from administration import Admin
from bus.bus import Bus
from bus.errors import BusUnavailable
from bus.feed_stream import EventSelection
from contracts import events
from contracts.feed import FeedEvent
from conversations.event_store.timelines import left_out
from ops import printing
from ops.admin import direct
from ops.admin.options import AsJson
from ops.errors import RefusedError


class LostEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Events that consumers may have seen, and what they were about."""

    events: int
    first_position: int
    last_position: int
    conversations: list[str]
    deletions: list[str]
    """Conversations whose deletion was lost, so that they are there again."""


def lost(as_json: AsJson = False) -> None:
    """List events that EVENTS has and the log has not: an asynchronous standby was promoted, or a backup was
    restored.

    Consumers may have seen them, and so may clients: accepted messages among them were lost. Exit code 1:
    there are some.
    """
    found = direct.run(_lost, bus="needed")
    if as_json:
        printing.as_json(found)
    else:
        lines = [line for each in found for line in lines_of(each)]
        sys.stdout.writelines(f"{line}\n" for line in lines or ["EVENTS has nothing that the log has not"])
    if found:
        sys.exit(1)


async def lost_between(bus: Bus, last_position: int, first_position: int) -> LostEvents | None:
    """Those in EVENTS after the one position and before the other. Raises BusUnavailable, RefusedError."""
    end = (await bus.feed.end()).position
    found: list[FeedEvent] = []
    if end > last_position:
        following = bus.feed.follow(EventSelection(start=last_position + 1), away=_away)
        async with contextlib.aclosing(following):
            async for event in following:
                if event.position < first_position:
                    found.append(event)
                if event.position >= min(end, first_position - 1):
                    break
    return _summary(found) if found else None


def lines_of(lost: LostEvents) -> Iterator[str]:
    """For a terminal."""
    yield (
        f"lost: {lost.events:,} events of {len(lost.conversations):,} conversations, positions "
        f"{lost.first_position:,} to {lost.last_position:,}; consumers may have seen them"
    )
    for each in lost.deletions:
        yield f"deleted and there again: agentchat admin DELETE /conversations/{each}"


async def _lost(admin: Admin) -> list[LostEvents]:
    bus = admin.need_bus()
    try:
        found = [
            await lost_between(bus, each.last_position, each.first_position)
            for each in await left_out(admin.pool)
        ]
    except BusUnavailable as error:
        raise RefusedError(f"EVENTS cannot be read: {error}") from None
    return [each for each in found if each is not None]


def _summary(found: Sequence[FeedEvent]) -> LostEvents:
    deleted = events.ConversationErased.__name__
    return LostEvents(
        events=len(found),
        first_position=found[0].position,
        last_position=found[-1].position,
        conversations=sorted({each.conversation_id for each in found}),
        deletions=sorted({each.conversation_id for each in found if each.name == deleted}),
    )


def _away(error: Exception) -> None:
    raise RefusedError(f"NATS does not answer: {error}")
