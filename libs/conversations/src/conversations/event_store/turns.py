"""Stored events that are read some at a time, so that the loop serves others between them."""

import asyncio
from collections.abc import AsyncIterator, Iterable

from conversations.event_store.log import LogEntry

TURN_BYTES = 256 * 1024
"""Of stored events, in one turn of the loop: a few milliseconds, whatever they hold."""


async def in_turns(rows: Iterable[LogEntry]) -> AsyncIterator[LogEntry]:
    """The rows in their order; others get a turn after each TURN_BYTES of them, and after a larger one."""
    taken = 0
    for row in rows:
        yield row
        taken += len(row.state)
        if taken >= TURN_BYTES:
            taken = 0
            await asyncio.sleep(0)
