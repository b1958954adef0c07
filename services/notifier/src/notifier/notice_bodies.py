"""Bodies of notices for all endpoints: what does not depend on the endpoint is read and encoded once."""

import contextlib
from collections.abc import Sequence

from contracts.webhooks import Payload
from conversations.errors import UnreadableEvent
from conversations.event_store.log import Log, LogEntry
from runtime.batching import Batcher
from runtime.bounded import BoundedMap
from webhooks.bodies import needs_reply, reply_of, rest_of, with_id
from webhooks.notices import Notice

_KEPT = 2048

_Position = tuple[str, int]
"""A conversation, and a version in it."""


class Bodies:
    """Thin bodies are kept but for the id. A reply is read at each attempt, since it may have been erased."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._replies: Batcher[_Position, LogEntry | None] = Batcher(self._read)
        self._thin: BoundedMap[int, bytes] = BoundedMap(_KEPT)

    async def of(self, notice: Notice, delivery_id: str, payload: Payload) -> bytes | None:
        """None where the reply that belongs into it has been erased. Raises DatabaseUnavailable."""
        if payload == "full":
            reply = None
            if needs_reply(notice, payload):
                entry = await self._replies.call((notice.conversation_id, notice.version - 1))
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

    async def aclose(self) -> None:
        """Read nothing any more."""
        await self._replies.aclose()

    async def _read(self, positions: Sequence[_Position], _: float) -> Sequence[LogEntry | None]:
        """The events right before the ends of runs, which are their replies; None where one is gone."""
        entries = await self._log.at_versions(set(positions))
        found = {(entry.conversation_id, entry.version): entry for entry in entries}
        return [found.get(position) for position in positions]
