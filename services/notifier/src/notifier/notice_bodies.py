"""Bodies of deliveries, made of the log at each attempt: what was erased meanwhile is not sent."""

import contextlib
from collections.abc import Sequence

from contracts.webhooks import Payload
from conversations.errors import UnreadableEvent
from conversations.event_store.log import Log, LogEntry
from runtime.batching import Batcher
from runtime.bounded import BoundedMap
from webhooks.notices import Notice, needs_reply, notice_of, reply_of, rest_of, with_id
from webhooks.outbox import DueDelivery

_CACHED = 2048

_Version = tuple[str, int]
"""A conversation, and a version of it."""


class NoticeBodies:
    """What is needed at the same time is read by one statement.

    A thin body is encoded once for all endpoints.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._notices: Batcher[int, Notice | None] = Batcher(self._read_notices)
        self._replies: Batcher[_Version, LogEntry | None] = Batcher(self._read_replies)
        self._thin: BoundedMap[int, bytes] = BoundedMap(_CACHED)

    async def of(self, delivery: DueDelivery, payload: Payload) -> bytes | None:
        """None where the event, or the reply that belongs into it, was erased. Raises DatabaseUnavailable."""
        if delivery.body is not None:
            return delivery.body.encode()
        notice = await self._notices.call(delivery.position) if delivery.position is not None else None
        if notice is None:
            return None
        if payload == "thin":
            rest = self._thin.get(notice.position)
            if rest is None:
                rest = rest_of(notice, payload)
                self._thin.put(notice.position, rest)
            return with_id(delivery.id, rest)
        reply = None
        if needs_reply(notice, payload):
            entry = await self._replies.call((notice.conversation_id, notice.version - 1))
            if entry is None:
                return None
            with contextlib.suppress(UnreadableEvent):
                reply = reply_of(notice.conversation_id, notice.event.trace_id, entry.event)
        return with_id(delivery.id, rest_of(notice, payload, reply))

    async def aclose(self) -> None:
        """Read nothing any more."""
        await self._notices.aclose()
        await self._replies.aclose()

    async def _read_notices(self, positions: Sequence[int], _: float) -> Sequence[Notice | None]:
        found: dict[int, Notice | None] = {}
        for entry in await self._log.at(set(positions)):
            with contextlib.suppress(UnreadableEvent):
                found[entry.position] = notice_of(
                    entry.position, entry.conversation_id, entry.version, entry.event
                )
        return [found.get(position) for position in positions]

    async def _read_replies(self, versions: Sequence[_Version], _: float) -> Sequence[LogEntry | None]:
        """The events right before the ends of runs, which are their replies; None where one is gone."""
        entries = await self._log.at_versions(set(versions))
        found = {(entry.conversation_id, entry.version): entry for entry in entries}
        return [found.get(version) for version in versions]
