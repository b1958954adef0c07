"""A reader that follows the event store during the run, and answers what is committed now.

It reads up to the settled position, as every follower of the log does: a commit that becomes visible after it
would be missed, and the checker compares what it saw with all there is (I9). What is committed now it sees
above that position too.
"""

import asyncio
import contextlib
import re
from typing import Any

import msgspec
import psycopg

from tests.chaos.records import Clock, Event

TAG = re.compile(r"\[\[u:([0-9a-f-]{36})\]\]")
_SECONDS = 2.0
_NAME = "chaos"
_QUERY = (
    "SELECT notification_id, originator_id, originator_version, topic, convert_from(state, 'UTF8')"
    " FROM conversation_events WHERE notification_id > %s ORDER BY notification_id"
)


_SETTLED = "SELECT settled_position()"

_Row = tuple[int, str, int, str, str]


class Tail:
    """Reads with a connection of its own, past every proxy."""

    def __init__(self, database_url: str, clock: Clock) -> None:
        self.positions: list[int] = []
        self._url = database_url
        self._clock = clock
        self._users: set[str] = set()
        self._replies: set[str] = set()
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._lock = asyncio.Lock()

    async def restart(self) -> None:
        """Read from the beginning: a promoted standby uses the positions of lost events again."""
        async with self._lock:
            self.positions.clear()

    async def follow(self) -> None:
        """Read twice a second, until cancelled."""
        while True:
            await self._read()
            await asyncio.sleep(0.5)

    async def has_message(self, ask: str) -> bool | None:
        """Whether the user's message is committed; None where Postgres does not say."""
        if ask in self._users:
            return True
        return ask in self._users if await self._read() else None

    async def has_reply(self, trace: str) -> bool | None:
        """Whether the reply of a trace is committed; None where Postgres does not say."""
        if trace in self._replies:
            return True
        return trace in self._replies if await self._read() else None

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def _read(self) -> bool:
        with contextlib.suppress(psycopg.Error, OSError, TimeoutError):
            async with asyncio.timeout(_SECONDS), self._lock:
                settled, rows = await self._rows(self.positions[-1] if self.positions else 0)
                for position, _, _, topic, state in rows:
                    if position <= settled:
                        self.positions.append(position)
                    self._note(topic, state)
                return True
        return False

    async def _rows(self, after: int) -> tuple[float, list[_Row]]:
        """The settled position, and then what is committed."""
        if self._connection is None or self._connection.closed:
            self._connection = await psycopg.AsyncConnection.connect(
                self._url, autocommit=True, connect_timeout=2, application_name=_NAME
            )
        try:
            settled = await _find_settled_position(self._connection)
            return settled, await (await self._connection.execute(_QUERY, (after,))).fetchall()
        except BaseException:
            connection, self._connection = self._connection, None
            with contextlib.suppress(Exception):
                await connection.close()
            raise

    def _note(self, topic: str, state: str) -> None:
        if topic != "message_saved.v1":
            return
        message = msgspec.json.decode(state)
        if message.get("interrupted"):
            return
        if message["role"] == "assistant":
            self._replies.add(message["trace_id"])
        elif found := TAG.search(message["content"]):
            self._users.add(found[1])


async def _find_settled_position(connection: psycopg.AsyncConnection[Any]) -> float:
    """Return a position at or below which no event is appended any more."""
    row = await (await connection.execute(_SETTLED)).fetchone()
    return float(row[0]) if row else 0.0


async def read_events(database_url: str, clock: Clock) -> list[Event]:
    """Every row there is."""
    async with await psycopg.AsyncConnection.connect(
        database_url, autocommit=True, application_name=_NAME
    ) as connection:
        rows = await (await connection.execute(_QUERY, (0,))).fetchall()
    events = []
    for position, conversation, version, topic, text in rows:
        state = msgspec.json.decode(text)
        kind = str(topic).partition(".")[0]
        at = clock.of(state["at"])
        events.append(
            Event(
                position=position, conversation=conversation, version=version, kind=kind, at=at, state=state
            )
        )
    return events
