"""Bodies of notices for all endpoints: what does not depend on the endpoint is read and encoded once."""

import asyncio
import contextlib

from contracts.webhooks import Payload
from conversations.errors import UnreadableEvent
from conversations.event_store.log import Log, LogEntry
from runtime.bounded import BoundedMap
from runtime.postgres import DatabaseUnavailable
from webhooks.bodies import needs_reply, reply_of, rest_of, with_id
from webhooks.notices import Notice

_KEPT = 2048

_Place = tuple[str, int]
"""A conversation, and a version in it."""


class Bodies:
    """Thin bodies are kept but for the id. A reply is read at each attempt, since it may have been erased."""

    def __init__(self, log: Log) -> None:
        self._replies = _Replies(log)
        self._thin: BoundedMap[int, bytes] = BoundedMap(_KEPT)

    async def of(self, notice: Notice, delivery_id: str, payload: Payload) -> bytes | None:
        """None where the reply that belongs into it has been erased. Raises DatabaseUnavailable."""
        if payload == "full":
            reply = None
            if needs_reply(notice, payload):
                entry = await self._replies.of(notice)
                if entry is None:
                    return None
                with contextlib.suppress(UnreadableEvent):
                    reply = reply_of(notice.conversation_id, notice.event.trace_id, entry.event)
            return with_id(delivery_id, rest_of(notice, payload, reply))
        rest = self._thin.get(notice.position)
        if rest is None:
            rest = rest_of(notice, payload)
            self._thin.put(notice.position, rest)
        return with_id(delivery_id, rest)


class _Group:
    """Replies that are read together, and what came of it."""

    def __init__(self) -> None:
        self.wanted: set[_Place] = set()
        self.found: dict[_Place, LogEntry] | None = None
        self.failure: DatabaseUnavailable | None = None


class _Replies:
    """While some are read, those that are asked for gather; they are read next, each once for all."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._group = _Group()
        self._turn = asyncio.Lock()

    async def of(self, notice: Notice) -> LogEntry | None:
        """The event right before a run's end, which is its reply; None where it is gone.

        Raises DatabaseUnavailable.
        """
        place, group = (notice.conversation_id, notice.version - 1), self._group
        group.wanted.add(place)
        async with self._turn:
            if group.found is None and group.failure is None:
                await self._read(group)
        if group.failure is not None:
            raise group.failure
        return group.found.get(place) if group.found else None

    async def _read(self, group: _Group) -> None:
        if self._group is group:
            self._group = _Group()
        try:
            entries = await self._log.at_versions(group.wanted)
        except DatabaseUnavailable as error:
            group.failure = error
        else:
            group.found = {(entry.conversation_id, entry.version): entry for entry in entries}
