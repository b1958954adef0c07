"""Insert a row with its body for each event of the log that an endpoint subscribes to.

Reads `conversations.event_store.event_log`, run by `projector.worker`; `webhook_sender` sends the rows. The
id of a row follows from its event and endpoint, so inserting it again changes nothing. Rows are inserted for
disabled endpoints too: they wait until the endpoint is enabled, for 31 days at most.
"""

import contextlib
import time
from collections.abc import Callable, Collection, Sequence

import msgspec

from agentchat.contracts import events, wire
from agentchat.contracts.webhooks import EventType, Payload, derive_webhook_id
from agentchat.conversations.errors import UnreadableEvent
from agentchat.conversations.event_store.event_log import Log, LogEntry
from agentchat.conversations.projections import read_model_follower
from agentchat.runtime.logs import get_logger
from agentchat.runtime.postgres import Connection, Pool, acquire_connection
from agentchat.webhooks import delivery_queue
from agentchat.webhooks.webhook_bodies import (
    OTHERS,
    WANTED,
    Notice,
    build_body,
    build_notice,
    find_reply,
    needs_reply,
)

BATCH = read_model_follower.BATCH
"""The batch of the read models, which read the same pages."""

_STORE_SECONDS = 1.0
_SECONDS = 10.0

_Version = tuple[str, int]
"""A conversation, and a version of it."""


class _Listener(msgspec.Struct, frozen=True, array_like=True):
    """An endpoint of an account that has events in a page."""

    account_id: str
    endpoint_id: str
    events: tuple[EventType, ...]
    payload: Payload
    begins_after: int


class DeliveryRow(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery to insert."""

    id: str
    endpoint_id: str
    type: EventType
    position: int
    conversation_id: str
    body: str


class DeliveryProjection:
    """Follows the log. Its position is stored once a second.

    After a kill it continues from there. `on_inserted` is called when there is something to send, `on_erased`
    with the conversations of which nothing may be sent any more.
    """

    def __init__(
        self,
        pool: Pool,
        log: Log,
        *,
        on_inserted: Callable[[], None] = lambda: None,
        on_erased: Callable[[Collection[str]], None] = lambda _: None,
    ) -> None:
        self._pool = pool
        self._log = log
        self._on_inserted = on_inserted
        self._on_erased = on_erased
        self._position: int | None = None
        self._stored = (0, 0.0)  # the position, when

    def forget_position(self) -> None:
        """Read the stored position again: another process may have followed the log meanwhile."""
        self._position = None

    async def step(self) -> bool:
        """Insert the rows of the next page of the log; return True if the log has more.

        Raises DatabaseUnavailable.
        """
        position, self._position = self._position, None  # read again if anything fails
        if position is None:
            position = await self._read_position()
        entries = await self._log.read(position, BATCH, without=OTHERS)
        if entries:
            position = entries[-1].position
            if notices := _list_notices(entries):
                await self._insert(notices)
        stored, at = self._stored
        if position != stored and time.monotonic() - at > _STORE_SECONDS:
            async with acquire_connection(self._pool) as conn:
                await conn.execute(_STORE, [position])
            self._stored = (position, time.monotonic())
        self._position = position
        return not entries.is_last

    async def _read_position(self) -> int:
        async with acquire_connection(self._pool) as conn:
            row = await (await conn.execute("SELECT position FROM webhook_position")).fetchone()
        assert row is not None, "a migration has inserted it"
        return int(row[0])

    async def _insert(self, notices: Sequence[tuple[str, Notice]]) -> None:
        async with acquire_connection(self._pool, seconds=_SECONDS) as conn:
            listeners = await _find_listeners(conn, {account_id for account_id, _ in notices})
            wanted = [
                (listener, notice)
                for account_id, notice in notices
                for listener in listeners.get(account_id, ())
                if notice.type in listener.events and notice.position > listener.begins_after
            ]
            rows = await self._build_rows(wanted)
            erased = [each.conversation_id for _, each in notices if each.type == "conversation.deleted"]
            if rows or (erased and listeners):
                async with conn.transaction():
                    if rows:
                        await conn.execute(_INSERT, [wire.encode(rows).decode()])
                    if erased:
                        await delivery_queue.erase_bodies(conn, erased)
        if erased:
            self._on_erased(erased)
        if rows:
            self._on_inserted()

    async def _build_rows(self, wanted: Sequence[tuple[_Listener, Notice]]) -> list[DeliveryRow]:
        versions = {(notice.conversation_id, 1) for _, notice in wanted}  # the conversations' first events
        versions |= {
            (notice.conversation_id, notice.version - 1)
            for listener, notice in wanted
            if needs_reply(notice, listener.payload)
        }
        entries = await self._log.read_at_versions(versions) if versions else []
        found = {(entry.conversation_id, entry.version): entry for entry in entries}
        return [_build_row(listener, notice, found) for listener, notice in wanted]


def _build_row(listener: _Listener, notice: Notice, found: dict[_Version, LogEntry]) -> DeliveryRow:
    """Build the row, with the reply right before the end of a run, and what the first event says."""
    reply = started = None
    with contextlib.suppress(UnreadableEvent, KeyError):
        event = found[notice.conversation_id, 1].event
        started = event if isinstance(event, events.ConversationStarted) else None
    if needs_reply(notice, listener.payload):
        with contextlib.suppress(UnreadableEvent, KeyError):
            event = found[notice.conversation_id, notice.version - 1].event
            reply = find_reply(notice.conversation_id, notice.event.trace_id, event)
    delivery_id = derive_webhook_id(listener.endpoint_id, str(notice.position))
    return DeliveryRow(
        id=delivery_id,
        endpoint_id=listener.endpoint_id,
        type=notice.type,
        position=notice.position,
        conversation_id=notice.conversation_id,
        body=build_body(delivery_id, notice, listener.payload, reply, started).decode(),
    )


def _list_notices(entries: Sequence[LogEntry]) -> list[tuple[str, Notice]]:
    """Return the events of a page that endpoints can be sent, with their accounts."""
    notices = []
    for entry in entries:
        if entry.topic not in WANTED or entry.erased:
            continue
        try:
            notice = build_notice(entry.position, entry.conversation_id, entry.version, entry.event)
        except UnreadableEvent as error:
            logger = get_logger("agentchat.webhooks.delivery_projection")
            logger.warning("event_skipped", position=entry.position, reason=str(error))
            continue
        if notice is not None and entry.account_id is not None:
            notices.append((entry.account_id, notice))
    return notices


async def _find_listeners(conn: Connection, account_ids: Collection[str]) -> dict[str, list[_Listener]]:
    found: dict[str, list[_Listener]] = {}
    for row in await (await conn.execute(_LISTENERS, [list(account_ids)])).fetchall():
        listener = msgspec.convert(row, _Listener)
        found.setdefault(listener.account_id, []).append(listener)
    return found


_LISTENERS = """
SELECT account_id, endpoint_id, events, payload, begins_after FROM webhook_endpoints
 WHERE account_id = ANY(%s)
"""

# Skips an endpoint that is deleted at the same time.
_INSERT = """
INSERT INTO webhook_deliveries
       (delivery_id, endpoint_id, type, position, conversation_id, body, status, next_attempt_at)
SELECT r.id, e.endpoint_id, r.type, r.position, r.conversation_id, r.body, 'waiting', clock_timestamp()
  FROM jsonb_to_recordset(%s) AS r
       (id text, endpoint_id text, type text, position bigint, conversation_id text, body text)
  JOIN webhook_endpoints e USING (endpoint_id)
 ORDER BY r.position FOR KEY SHARE OF e
ON CONFLICT (delivery_id) DO NOTHING
"""

_STORE = "UPDATE webhook_position SET position = %s"
