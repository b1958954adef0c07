"""What the notifier reads and writes: endpoints with their cursors, what is due, and what became of attempts.

Whatever it commits may be lost with the server, and is then sent again under the same ids.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from contracts import wire
from contracts.webhooks import (
    Attempt,
    DeliveryStatus,
    DisabledReason,
    EndpointData,
    EventType,
    Payload,
    message_id,
)
from runtime.postgres import Connection, Pool, connection
from webhooks.webhook_rows import tell

MAX_ATTEMPTS_KEPT = 20
"""Of one delivery, the last ones."""

DISABLE_AFTER_DAYS = 5
"""An endpoint without a success for so long, since its first failure, is disabled."""

KEPT_DAYS = 30
"""A delivery that waits for nothing, or whose endpoint is disabled, is deleted after so long."""

_SECONDS = 10.0


class EndpointCursor(msgspec.Struct):
    """How far the log was read for an endpoint; `until` is the end of a replay."""

    id: str
    position: int
    until: int | None


class EndpointTarget(msgspec.Struct, kw_only=True):
    """An enabled endpoint as the notifier has it. Times are seconds from when it was read.

    `failures` are those in a row. Nothing is sent within `pause_seconds`; the next delivery that waits is due
    in `due_seconds`, None where there is none.
    """

    id: str
    account_id: str
    url: str
    events: frozenset[EventType]
    payload: Payload
    secret: bytes
    previous_secret: bytes | None
    previous_seconds: float | None
    failures: int
    pause_seconds: float
    due_seconds: float | None
    position: int
    replays: list[EndpointCursor]


class Due(msgspec.Struct, frozen=True):
    """A delivery whose next attempt is due. `body` is that of what is no event of the log."""

    id: str
    type: EventType
    position: int | None
    body: bytes | None
    tries: int


class AttemptOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an attempt. With `wait` seconds there is another; `tries` have failed in a row.

    `attempt` is None where nothing was sent, since the event is gone.
    """

    id: str
    type: EventType
    position: int | None
    status: DeliveryStatus
    tries: int
    attempt: Attempt | None
    wait: float | None = None


class EndpointHealth(msgspec.Struct, frozen=True, kw_only=True):
    """What attempts say of an endpoint: its `failures` in a row, and for how long it is left in peace.

    `succeeded`: one of the attempts was a success, so that it has failed since then at the earliest.
    """

    failures: int
    pause_seconds: float | None
    gone: bool = False
    succeeded: bool = False


async def any_enabled(conn: Connection) -> bool:
    """Whether there is an endpoint to serve. Raises psycopg.Error."""
    return await (await conn.execute(_ANY)).fetchone() == (True,)


async def now(pool: Pool) -> float:
    """Postgres' time, in seconds since 1970. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        row = await (await conn.execute("SELECT extract(epoch FROM clock_timestamp())::float8")).fetchone()
    assert row is not None, "SELECT without FROM gives one row"
    return float(row[0])


async def load(pool: Pool, ids: Sequence[str] | None = None) -> list[EndpointTarget]:
    """The enabled endpoints, or those of `ids` that are. Raises DatabaseUnavailable."""
    async with connection(pool, seconds=_SECONDS) as conn:
        rows = await (await conn.execute(_TARGETS, {"ids": None if ids is None else list(ids)})).fetchall()
    return [_target(row) for row in rows]


async def due(pool: Pool, endpoint_id: str, limit: int) -> list[Due]:
    """Deliveries whose next attempt is due, the oldest first. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        rows = await (await conn.execute(_DUE, [endpoint_id, limit])).fetchall()
    return [Due(id_, type_, at, body and body.encode(), tries) for id_, type_, at, body, tries in rows]


async def next_due(pool: Pool, endpoint_id: str) -> float | None:
    """In how many seconds the endpoint's next delivery is due. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        return await _next_due(conn, endpoint_id)


async def record(
    pool: Pool,
    endpoint_id: str,
    outcomes: Sequence[AttemptOutcome],
    *,
    cursor: EndpointCursor | None = None,
    health: EndpointHealth | None = None,
) -> tuple[DisabledReason | None, float | UnsetType | None]:
    """Write down what became of attempts, that a cursor has come further, and how the endpoint does.

    Returns why the endpoint has been disabled by it, and in how many seconds its next delivery is due, where
    that may have changed. A cursor never goes back, so one who was stopped meanwhile spoils nothing. Raises
    DatabaseUnavailable.
    """
    given = {
        "endpoint": endpoint_id,
        "outcomes": wire.encode([_row(each) for each in outcomes]).decode(),
        "kept": MAX_ATTEMPTS_KEPT,
        "cursor": cursor and cursor.id,
        "position": cursor and cursor.position,
    }
    is_replay = cursor is not None and cursor.until is not None
    if cursor and not is_replay and health is None and all(each.wait is None for each in outcomes):
        async with connection(pool, seconds=_SECONDS) as conn:
            await conn.execute(_RECORD, given)
        return None, UNSET
    async with connection(pool, seconds=_SECONDS) as conn, conn.transaction():
        await conn.execute(_RECORD, given)
        if cursor is not None and cursor.until is not None and cursor.position >= cursor.until:
            await conn.execute("DELETE FROM webhook_cursors WHERE cursor_id = %s", [cursor.id])
        reason = await _note_health(conn, endpoint_id, health) if health is not None else None
        return reason, await _next_due(conn, endpoint_id)


async def advance(pool: Pool, positions: dict[str, int]) -> None:
    """Note how far the live cursors of endpoints have come. Raises DatabaseUnavailable."""
    rows = [{"id": endpoint_id, "position": position} for endpoint_id, position in positions.items()]
    async with connection(pool, seconds=_SECONDS) as conn:
        await conn.execute(_ADVANCE, [wire.encode(rows).decode()])


async def forget(conn: Connection, limit: int) -> int:
    """Delete up to `limit` deliveries that are older than KEPT_DAYS. Raises psycopg.Error."""
    return (await conn.execute(_FORGET, [KEPT_DAYS, limit])).rowcount


async def _next_due(conn: Connection, endpoint_id: str) -> float | None:
    row = await (await conn.execute(_NEXT_DUE, [endpoint_id])).fetchone()
    return row[0] if row else None


async def _note_health(conn: Connection, endpoint_id: str, health: EndpointHealth) -> DisabledReason | None:
    if health.failures == 0 and not health.gone:
        await conn.execute(_WELL, [endpoint_id])
        return None
    await conn.execute(_UNWELL, [health.succeeded, health.failures, health.pause_seconds, endpoint_id])
    reason: DisabledReason = "gone" if health.gone else "failing"
    cursor = await conn.execute(
        _DISABLE, {"reason": reason, "id": endpoint_id, "gone": health.gone, "days": DISABLE_AFTER_DAYS}
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    await tell(conn, endpoint_id)
    await _tell_others(conn, endpoint_id, reason, *row)
    return reason


async def _tell_others(
    conn: Connection, endpoint_id: str, reason: DisabledReason, account_id: str, url: str, at: datetime
) -> None:
    from webhooks.bodies import text_of, whole_body

    others = await (await conn.execute(_LISTENERS, [account_id, endpoint_id])).fetchall()
    for (other,) in others:
        delivery_id = message_id(other, f"{endpoint_id} disabled {text_of(at)}")
        data = EndpointData(endpoint_id=endpoint_id, url=url, reason=reason)
        body = whole_body(delivery_id, "endpoint.disabled", text_of(at), data)
        await conn.execute(_INSERT_DISABLED, [delivery_id, other, body.decode()])
        await tell(conn, other)


def _row(outcome: AttemptOutcome) -> dict[str, Any]:
    attempts = [] if outcome.attempt is None else [outcome.attempt]
    return {**msgspec.structs.asdict(outcome), "attempt": attempts}


def _target(row: tuple[Any, ...]) -> EndpointTarget:
    fields = dict(zip(EndpointTarget.__struct_fields__, row, strict=True))
    fields["events"] = frozenset(fields["events"])
    fields["replays"] = [EndpointCursor(**each) for each in fields["replays"]]
    return EndpointTarget(**fields)


_ANY = "SELECT EXISTS (SELECT FROM webhook_endpoints WHERE disabled_at IS NULL)"

_TARGETS = """
SELECT e.endpoint_id, account_id, url, events, payload, secret, previous_secret,
       extract(epoch FROM previous_until - clock_timestamp())::float8, failures,
       greatest(coalesce(extract(epoch FROM not_before - clock_timestamp())::float8, 0), 0),
       (SELECT extract(epoch FROM min(next_attempt_at) - clock_timestamp())::float8
          FROM webhook_deliveries d
         WHERE d.endpoint_id = e.endpoint_id AND next_attempt_at IS NOT NULL),
       (SELECT position FROM webhook_cursors WHERE cursor_id = e.endpoint_id),
       (SELECT coalesce(json_agg(json_build_object(
                   'id', cursor_id, 'position', position, 'until', until) ORDER BY cursor_id), '[]')
          FROM webhook_cursors c WHERE c.endpoint_id = e.endpoint_id AND until IS NOT NULL)
  FROM webhook_endpoints e
 WHERE disabled_at IS NULL AND (%(ids)s::text[] IS NULL OR e.endpoint_id = ANY(%(ids)s))
"""

_DUE = """
SELECT delivery_id, type, position, body::text, tries FROM webhook_deliveries
 WHERE endpoint_id = %s AND next_attempt_at <= clock_timestamp() ORDER BY next_attempt_at LIMIT %s
"""

# Nothing is written for an endpoint that has been deleted.
_RECORD = """
WITH moved AS (
    UPDATE webhook_cursors SET position = %(position)s
     WHERE cursor_id = %(cursor)s AND position < %(position)s
)
INSERT INTO webhook_deliveries AS d
       (delivery_id, endpoint_id, type, position, status, tries, attempts, next_attempt_at)
SELECT r.id, e.endpoint_id, r.type, r.position, r.status, r.tries, r.attempt,
       clock_timestamp() + make_interval(secs => r.wait)
  FROM jsonb_to_recordset(%(outcomes)s) AS r
       (id text, type text, position bigint, status text, tries integer, attempt jsonb, wait float8)
  JOIN webhook_endpoints e ON e.endpoint_id = %(endpoint)s
ON CONFLICT (delivery_id) DO UPDATE
   SET status = excluded.status, tries = excluded.tries, next_attempt_at = excluded.next_attempt_at,
       attempts = CASE WHEN jsonb_array_length(d.attempts) < %(kept)s THEN d.attempts ELSE d.attempts - 0 END
                  || excluded.attempts
"""

_NEXT_DUE = """
SELECT extract(epoch FROM min(next_attempt_at) - clock_timestamp())::float8 FROM webhook_deliveries
 WHERE endpoint_id = %s AND next_attempt_at IS NOT NULL
"""

_WELL = """
UPDATE webhook_endpoints SET failing_since = NULL, failures = 0, not_before = NULL WHERE endpoint_id = %s
"""

_UNWELL = """
UPDATE webhook_endpoints
   SET failing_since = coalesce(CASE WHEN %s THEN NULL ELSE failing_since END, clock_timestamp()),
       failures = %s,
       not_before = clock_timestamp() + make_interval(secs => %s)
 WHERE endpoint_id = %s
"""

_DISABLE = """
UPDATE webhook_endpoints SET disabled_at = clock_timestamp(), disabled_reason = %(reason)s
 WHERE endpoint_id = %(id)s AND disabled_at IS NULL
   AND (%(gone)s OR failing_since <= clock_timestamp() - make_interval(days => %(days)s))
RETURNING account_id, url, disabled_at
"""

_LISTENERS = """
SELECT endpoint_id FROM webhook_endpoints
 WHERE account_id = %s AND endpoint_id <> %s AND disabled_at IS NULL AND 'endpoint.disabled' = ANY(events)
"""

_INSERT_DISABLED = """
INSERT INTO webhook_deliveries (delivery_id, endpoint_id, type, body, status, next_attempt_at)
VALUES (%s, %s, 'endpoint.disabled', %s, 'waiting', clock_timestamp()) ON CONFLICT (delivery_id) DO NOTHING
"""

_ADVANCE = """
UPDATE webhook_cursors c SET position = r.position
  FROM jsonb_to_recordset(%s) AS r (id text, position bigint)
 WHERE c.cursor_id = r.id AND c.position < r.position
"""

_FORGET = """
DELETE FROM webhook_deliveries WHERE delivery_id IN (
    SELECT delivery_id FROM webhook_deliveries JOIN webhook_endpoints USING (endpoint_id)
     WHERE webhook_deliveries.created_at < clock_timestamp() - make_interval(days => %s)
       AND (next_attempt_at IS NULL OR disabled_at IS NOT NULL) LIMIT %s)
"""
