"""Large runs are read some events at a time, so that the loop serves others between them."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from weakref import WeakKeyDictionary

from conversations.event_store.log import LogEntry, bytes_of
from runtime.fair_slots import FairSlots

TURN_BYTES = 256 * 1024
"""Of stored events, in one turn of the loop: a few milliseconds, whatever they hold."""

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, FairSlots] = WeakKeyDictionary()


async def in_turns(rows: Sequence[LogEntry]) -> AsyncIterator[LogEntry]:
    """The rows of a conversation in their order. Of more than TURN_BYTES, one reader of the process at a time
    takes so many, or one that is larger, and pauses for as long as it has worked on them: all together take
    half of the loop, and accounts take turns. Raises DatabaseUnavailable.
    """
    if bytes_of(rows) <= TURN_BYTES:
        for row in rows:
            yield row
        return
    loop = asyncio.get_running_loop()
    turns = _turns.setdefault(loop, FairSlots(1))
    account_id = rows[0].account_id or rows[0].conversation_id
    for part in _parts(rows):
        async with turns.turn(account_id):
            began = loop.time()
            for row in part:
                yield row
            await asyncio.sleep(loop.time() - began)


def _parts(rows: Sequence[LogEntry]) -> Iterator[Sequence[LogEntry]]:
    start = taken = 0
    for end, row in enumerate(rows, start=1):
        taken += len(row.state)
        if taken >= TURN_BYTES or end == len(rows):
            yield rows[start:end]
            start, taken = end, 0
