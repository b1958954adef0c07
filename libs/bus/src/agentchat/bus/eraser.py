"""Removes what the streams hold of an erased conversation.

EVENTS is found by log position: its messages are in the order of the log, so a search by halves finds one in
a few looks, and mostly the first look does. The queues and DEAD are read through, once for many erasures.
"""

import asyncio
import re
from collections.abc import Collection, Iterable
from functools import partial

from agentchat.bus.jetstream import JetStream, StoredMessage
from agentchat.bus.positions import first_where, position_of
from agentchat.contracts import subjects

_AT_ONCE = 50
_QUEUES = (
    (subjects.REQUESTS, "chat.requests.>"),
    (subjects.TOOLS, "chat.tools.requests.>"),
    (subjects.DEAD, "chat.dead.>"),
)
# Trace ids and conversation ids, as `contracts.ids` has them.
_ID = re.compile(rb"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Eraser:
    """Removes from the streams. Calls raise BusUnavailable."""

    def __init__(self, jetstream: JetStream) -> None:
        self._jetstream = jetstream

    async def erase_events(self, positions: Iterable[int]) -> None:
        """Remove and overwrite the events of these log positions that EVENTS holds."""
        sequence, _ = await self._jetstream.state(subjects.EVENTS)
        low, end = 1, sequence + 1
        place: tuple[int, int] | None = None  # sequence and position of the event found last
        for position in sorted(positions):
            # No two events have one position: so many positions on is at most so many sequences on.
            high = end if place is None else min(end, place[0] + position - place[1])
            found = await first_where(self._jetstream, partial(_is_from, position), low, high)
            if found is None:
                return
            low = found.sequence
            place = (found.sequence, position_of(found))
            if place[1] == position:
                await self._jetstream.delete(subjects.EVENTS, found.sequence)

    async def erase_runs(self, trace_ids: Collection[str]) -> None:
        """Remove frames and tool results of these runs; the results, which lie in files, are overwritten."""
        runs = list(trace_ids)
        for start in range(0, len(runs), _AT_ONCE):
            await asyncio.gather(*(self._erase_run(run) for run in runs[start : start + _AT_ONCE]))

    async def _erase_run(self, trace_id: str) -> None:
        await self._jetstream.purge(subjects.TRACES, subjects.trace(trace_id))
        results = self._jetstream.messages(subjects.RESULTS, subjects.tool_results(trace_id))
        for sequence in [each.sequence async for each in results]:
            await self._jetstream.delete(subjects.RESULTS, sequence)

    async def erase_mentions(self, ids: Collection[str]) -> None:
        """Remove and overwrite what the queues and DEAD hold that names one of these runs or conversations.

        However many they are, each stream is read through once.
        """
        wanted = {each.encode() for each in ids}
        for stream, subject in _QUEUES if wanted else ():
            found = [
                each.sequence
                async for each in self._jetstream.messages(stream, subject)
                if not wanted.isdisjoint(_ID.findall(each.data))
            ]
            for sequence in found:
                await self._jetstream.delete(stream, sequence)


def _is_from(position: int, message: StoredMessage) -> bool:
    return position_of(message) >= position
