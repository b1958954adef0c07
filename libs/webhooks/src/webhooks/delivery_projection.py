"""Inserts a row for each delivery: of what is appended to the log, and of ranges, replayed or missed.

A row has no body: that is made from the log at each attempt. Its id follows from event and endpoint, so that
to insert it again changes nothing, and two who read the same page do no harm.
"""

import time
from collections.abc import Sequence

import msgspec

from contracts import wire
from contracts.webhooks import EventType
from conversations.errors import UnreadableEvent
from conversations.event_store.log import Log, LogEntry
from conversations.event_store.owners import Owners
from conversations.projections import follower
from runtime.logs import get_logger
from runtime.postgres import Pool, connection
from webhooks.notices import OTHERS, WANTED, notice_of
from webhooks.outbox import notify

BATCH = follower.BATCH
"""That of the read models, which read the same pages."""

ROOM = 1000
"""A range waits while its endpoint has so many deliveries to come: they are sent in the order of the rows, so
what happens meanwhile is not held up by more than this, and of an endpoint that fails the log is the queue.
"""

_RANGES_AT_ONCE = 4
_RANGE_BATCH = 1000
_STORE_SECONDS = 1.0
_SECONDS = 10.0


class NoticeRow(msgspec.Struct, frozen=True):
    """A notice, and the account of its conversation."""

    account_id: str
    type: EventType
    position: int


class DeliveryProjection:
    """Follows the log. Its position is stored once a second; after a kill it begins again from there."""

    def __init__(self, pool: Pool, log: Log) -> None:
        self._pool = pool
        self._log = log
        self._owners = Owners(log)
        self._position: int | None = None
        self._stored = (0, 0.0)  # the position, when

    def begin_again(self) -> None:
        """Another process may have followed the log meanwhile."""
        self._position = None

    async def step(self) -> int:
        """Insert the rows of the next page of the log; returns its size, less than BATCH at the log's end.

        Raises DatabaseUnavailable.
        """
        position, self._position = self._position, None  # to be looked up again, should anything fail
        if position is None:
            position = await self._read_position()
        entries = await self._log.read(position, BATCH, without=OTHERS)
        if entries:
            position = entries[-1].position
            if rows := await _notice_rows(entries, self._owners):
                async with connection(self._pool, seconds=_SECONDS) as conn:
                    if (await conn.execute(_FOLLOW, {"rows": _json(rows)})).rowcount:
                        await notify(conn, "")
        stored, at = self._stored
        if position != stored and time.monotonic() - at > _STORE_SECONDS:
            async with connection(self._pool) as conn:
                await conn.execute(_STORE, [position])
            self._stored = (position, time.monotonic())
        self._position = position
        return len(entries)

    async def _read_position(self) -> int:
        async with connection(self._pool) as conn:
            row = await (await conn.execute("SELECT position FROM webhook_position")).fetchone()
        assert row is not None, "a migration has inserted it"
        return int(row[0])


class _Range(msgspec.Struct, frozen=True):
    """Positions in (position, until] of one endpoint; `until` None is the end of the log now.

    With `resend` what was delivered is sent again.
    """

    id: str
    endpoint_id: str
    account_id: str
    events: list[EventType]
    position: int
    until: int | None
    resend: bool


async def insert_ranges(pool: Pool, log: Log, owners: Owners) -> bool:
    """Insert the rows of a page of some ranges whose endpoints have room; False where there is none.

    Safe next to others: a page is inserted by who moves the range's position. Raises DatabaseUnavailable.
    """
    async with connection(pool) as conn:
        rows = await (await conn.execute(_RANGES, [ROOM, ROOM, _RANGES_AT_ONCE])).fetchall()
    for row in rows:
        await _insert_page(pool, log, owners, _Range(*row))
    return bool(rows)


async def _insert_page(pool: Pool, log: Log, owners: Owners, found: _Range) -> None:
    # Read after the endpoint was enabled: the projection inserts what is appended from then on.
    until = found.until if found.until is not None else await log.head()
    settled = min(until, await log.settled())  # an append under way may yet come below the end
    entries = await log.read(found.position, _RANGE_BATCH, without=OTHERS, until=settled)
    end = entries[-1].position if entries else max(settled, found.position)
    rows = [
        row
        for row in await _notice_rows(entries, owners)
        if row.account_id == found.account_id and row.type in found.events
    ]
    moved = {"id": found.id, "before": found.position, "position": end, "until": until}
    async with connection(pool, seconds=_SECONDS) as conn, conn.transaction():
        await conn.execute(_FOLLOW_RANGE, {**moved, "rows": _json(rows), "resend": found.resend})
        if end >= until:
            await conn.execute("DELETE FROM webhook_cursors WHERE cursor_id = %s", [found.id])


async def _notice_rows(entries: Sequence[LogEntry], owners: Owners) -> list[NoticeRow]:
    wanted = [entry for entry in entries if entry.topic in WANTED]
    accounts = await owners.of(wanted) if wanted else {}
    rows = []
    for entry in wanted:
        account_id = accounts.get(entry.conversation_id)
        try:
            notice = notice_of(entry.position, entry.conversation_id, entry.version, entry.event)
        except UnreadableEvent as error:
            logger = get_logger("webhooks.delivery_projection")
            logger.warning("event_skipped", position=entry.position, reason=str(error))
            continue
        if notice is not None and account_id is not None:
            rows.append(NoticeRow(account_id, notice.type, notice.position))
    return rows


def _json(rows: Sequence[NoticeRow]) -> str:
    return wire.encode(rows).decode()


# The id is `contracts.webhooks.message_id`. An endpoint that is deleted at the same time is passed over.
_INSERT = """
INSERT INTO webhook_deliveries (delivery_id, endpoint_id, type, position, status, next_attempt_at)
SELECT 'msg_' || left(encode(sha256(convert_to(e.endpoint_id || ' ' || r.position, 'UTF8')), 'hex'), 32),
       e.endpoint_id, r.type, r.position, 'waiting', clock_timestamp()
  FROM jsonb_to_recordset(%(rows)s) AS r (account_id text, type text, position bigint)
  JOIN webhook_endpoints e ON e.account_id = r.account_id
"""

_FOLLOW = f"""{_INSERT}
 WHERE r.type = ANY(e.events) AND e.disabled_at IS NULL AND r.position > e.begins_after
 ORDER BY r.position FOR KEY SHARE OF e
ON CONFLICT (delivery_id) DO NOTHING
"""

_FOLLOW_RANGE = f"""
WITH moved AS (
    UPDATE webhook_cursors SET position = %(position)s, until = %(until)s
     WHERE cursor_id = %(id)s AND position = %(before)s RETURNING endpoint_id
)
{_INSERT}  JOIN moved USING (endpoint_id)
 ORDER BY r.position FOR KEY SHARE OF e
ON CONFLICT (delivery_id) DO UPDATE
   SET status = 'waiting', tries = 0, next_attempt_at = excluded.next_attempt_at WHERE %(resend)s
"""  # noqa: S608 - our own parts

_STORE = "UPDATE webhook_position SET position = %s"

# One of an account, so that none waits for another's.
_RANGES = """
SELECT * FROM (
    SELECT DISTINCT ON (account_id)
           cursor_id, e.endpoint_id, account_id, events, position, until, resend
      FROM webhook_cursors c JOIN webhook_endpoints e USING (endpoint_id)
     WHERE cursor_id <> e.endpoint_id AND disabled_at IS NULL
       AND (SELECT count(*) FROM (
               SELECT FROM webhook_deliveries d
                WHERE d.endpoint_id = e.endpoint_id AND next_attempt_at IS NOT NULL LIMIT %s) AS waiting) < %s
     ORDER BY account_id, random()
) AS ranges ORDER BY random() LIMIT %s
"""
