"""Remove from the streams what they hold of erased conversations.

Events are found by log position. EVENTS is in the order of the log, so a binary search finds an event in a
few looks, mostly in the first. The queues and DEAD are read through, once for many erasures.
"""

import asyncio
import re
from collections.abc import Collection, Iterable
from functools import partial

from agentchat.bus.feed_seek import find_first, get_position
from agentchat.bus.jetstream import JetStream, StoredMessage
from agentchat.contracts import subjects

_AT_ONCE = 50
_QUEUES = (
    (subjects.REQUESTS, "chat.requests.>"),
    (subjects.TOOLS, "chat.tools.requests.>"),
    (subjects.DEAD, "chat.dead.>"),
)
# Trace ids and conversation ids, as in `contracts.ids`.
_ID = re.compile(rb"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Eraser:
    """Removes messages from the streams. Methods raise BusUnavailable."""

    def __init__(self, jetstream: JetStream) -> None:
        self._jetstream = jetstream

    async def erase_events(self, positions: Iterable[int]) -> None:
        """Remove and overwrite the events of these log positions that EVENTS holds."""
        sequence, _ = await self._jetstream.get_stream_state(subjects.EVENTS)
        low, end = 1, sequence + 1
        place: tuple[int, int] | None = None  # sequence and position of the last event found
        for position in sorted(positions):
            # Positions are unique, so n positions further is at most n sequences further.
            high = end if place is None else min(end, place[0] + position - place[1])
            found = await find_first(self._jetstream, partial(_is_from, position), low, high)
            if found is None:
                return
            low = found.sequence
            place = (found.sequence, get_position(found))
            if place[1] == position:
                await self._jetstream.delete(subjects.EVENTS, found.sequence)

    async def erase_runs(self, trace_ids: Collection[str]) -> None:
        """Remove frames and tool results of these runs. Results lie in files and are overwritten."""
        runs = list(trace_ids)
        for start in range(0, len(runs), _AT_ONCE):
            await asyncio.gather(*(self._erase_run(run) for run in runs[start : start + _AT_ONCE]))

    async def _erase_run(self, trace_id: str) -> None:
        await self._jetstream.purge(subjects.TRACES, subjects.format_trace(trace_id))
        results = self._jetstream.read_messages(subjects.RESULTS, subjects.format_tool_results(trace_id))
        for sequence in [each.sequence async for each in results]:
            await self._jetstream.delete(subjects.RESULTS, sequence)

    async def erase_mentions(self, ids: Collection[str]) -> None:
        """Remove and overwrite messages of the queues and DEAD that name one of these runs or conversations.

        Each stream is read through once, however many ids there are.
        """
        wanted = {each.encode() for each in ids}
        for stream, subject in _QUEUES if wanted else ():
            found = [
                each.sequence
                async for each in self._jetstream.read_messages(stream, subject)
                if not wanted.isdisjoint(_ID.findall(each.data))
            ]
            for sequence in found:
                await self._jetstream.delete(stream, sequence)


def _is_from(position: int, message: StoredMessage) -> bool:
    return get_position(message) >= position
