"""What notifiers read and write: endpoints with deliveries that are due, and what became of attempts.

A notifier leases an endpoint while it sends a batch: no other sends to it, and no transaction is open.
Whatever it commits may be lost with the server, and is then sent again under the same ids.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime

import msgspec

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
from conversations.database import DatabaseError
from runtime.postgres import CALL_SECONDS, Connection, Pool, connection

CHANNEL = "webhook_endpoints"
"""Notifiers are notified on it that there may be something to send."""

LEASE_SECONDS = 35.0
"""An endpoint whose notifier died is sent to again after so long."""

MAX_ATTEMPTS_KEPT = 20
"""Of one delivery, the last ones."""

DISABLE_AFTER_DAYS = 5
"""An endpoint without a success for so long, since its first failure, is disabled."""

KEPT_DAYS = 30
"""A delivery that waits for nothing, or whose endpoint is disabled, is deleted after so long."""

_SECONDS = 10.0


class DueDelivery(msgspec.Struct, frozen=True, array_like=True):
    """A delivery whose next attempt is due. `body` is that of what is no event of the log."""

    id: str
    type: EventType
    position: int | None
    body: str | None
    tries: int
    due_at: str


class LeasedEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint that this process alone sends to until `lease`, with the oldest of what is due.

    `failures` are those in a row. `previous_secret` signs too where there is one.
    """

    id: str
    account_id: str
    url: str
    payload: Payload
    secret: bytes
    previous_secret: bytes | None
    failures: int
    look_ups_failed: int
    lease: datetime
    due: list[DueDelivery]


class AttemptOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a delivery. With `wait` seconds there is another attempt; `tries` have failed in a row.

    `attempt` is None where nothing was sent, since the event is gone.
    """

    id: str
    due_at: str
    status: DeliveryStatus
    tries: int
    attempt: Attempt | None
    wait: float | None = None


class BatchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a batch. Nothing is sent to the endpoint within `pause_seconds`.

    `failed`, `succeeded`: one of the attempts did; with the latter it has failed since then at the earliest.
    """

    endpoint_id: str
    lease: datetime
    outcomes: list[AttemptOutcome]
    failures: int
    look_ups_failed: int
    pause_seconds: float | None
    failed: bool
    succeeded: bool
    gone: bool


class NextDue(msgspec.Struct, frozen=True):
    """Whether an endpoint is enabled; in how many seconds one may be leased that has something due, None
    where none has anything; whether such a one is leased now.
    """

    any_enabled: bool
    seconds: float | None
    leased: bool


class EndpointFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Enabled endpoints; those `failing` whose last attempt failed, those `waiting` with a delivery to come.

    `behind`: positions of the log that the last of those that do not fail has not had.
    """

    endpoints: int
    failing: int
    waiting: int
    behind: int


@contextlib.asynccontextmanager
async def changing(
    pool: Pool, *, seconds: float = CALL_SECONDS
) -> AsyncIterator[tuple[Connection, Callable[[str], None]]]:
    """A transaction. After its commit, notifiers are woken for the endpoints that were named.

    Raises DatabaseUnavailable.
    """
    endpoint_ids: list[str] = []
    async with connection(pool, seconds=seconds) as conn:
        async with conn.transaction():
            yield conn, endpoint_ids.append
        for endpoint_id in endpoint_ids:
            await notify(conn, endpoint_id)


async def notify(conn: Connection, endpoint_id: str) -> None:
    """Wake the notifiers, outside of a transaction: one that notifies holds a lock of the database until its
    commit is on the disk. They look by themselves if it is lost.
    """
    with contextlib.suppress(DatabaseError):
        await conn.execute("SELECT pg_notify(%s, %s)", [CHANNEL, endpoint_id])


async def any_enabled(conn: Connection) -> bool:
    """Whether there is an endpoint to serve. Raises psycopg.Error."""
    return await (await conn.execute(_ANY)).fetchone() == (True,)


async def now(pool: Pool) -> float:
    """Postgres' time, in seconds since 1970. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        row = await (await conn.execute("SELECT extract(epoch FROM clock_timestamp())::float8")).fetchone()
    assert row is not None, "SELECT without FROM gives one row"
    return float(row[0])


async def lease(pool: Pool, limit: int, batch: int) -> list[LeasedEndpoint]:
    """Lease up to `limit` endpoints, each with up to `batch` deliveries that are due.

    Accounts take turns, and endpoints within an account: first who was sent to longest ago. Raises
    DatabaseUnavailable.
    """
    asked = {"limit": limit, "batch": batch, "seconds": LEASE_SECONDS}
    async with connection(pool, seconds=_SECONDS) as conn:
        rows = await (await conn.execute(_LEASE, asked)).fetchall()
    return [_leased(row) for row in rows]


async def next_due(pool: Pool) -> NextDue:
    """When there is something to send. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        row = await (await conn.execute(_NEXT_DUE)).fetchone()
    assert row is not None, "an aggregate gives one row"
    return NextDue(*row)


async def record(pool: Pool, results: Sequence[BatchResult]) -> dict[str, DisabledReason]:
    """Write down what became of batches, and end their leases; returns which endpoints it has disabled, and
    why.

    A delivery that is to be sent again since it was read stays so. A lease that another has taken stays too.
    Raises DatabaseUnavailable.
    """
    batches = [
        {name: getattr(each, name) for name in each.__struct_fields__ if name != "outcomes"}
        for each in results
    ]
    outcomes = [
        {**msgspec.structs.asdict(each), "attempt": [] if each.attempt is None else [each.attempt]}
        for result in results
        for each in result.outcomes
    ]
    given = {
        "outcomes": wire.encode(outcomes).decode(),
        "batches": wire.encode(batches).decode(),
        "kept": MAX_ATTEMPTS_KEPT,
        "days": DISABLE_AFTER_DAYS,
    }
    async with changing(pool, seconds=_SECONDS) as (conn, notify_of):
        disabled = await (await conn.execute(_RECORD, given)).fetchall()
        for endpoint_id, account_id, url, reason, at in disabled:
            data = EndpointData(endpoint_id=endpoint_id, url=url, reason=reason)
            for other in await _insert_disabled(conn, account_id, data, at):
                notify_of(other)
    return {row[0]: row[3] for row in disabled}


async def figures(pool: Pool) -> EndpointFigures:
    """Of all enabled endpoints. Raises DatabaseUnavailable."""
    async with connection(pool, seconds=_SECONDS) as conn:
        row = await (await conn.execute(_FIGURES)).fetchone()
    assert row is not None, "an aggregate gives one row"
    return EndpointFigures(**dict(zip(EndpointFigures.__struct_fields__, row, strict=True)))


async def delete_old(pool: Pool, limit: int) -> int:
    """Delete up to `limit` deliveries that are older than KEPT_DAYS. Raises DatabaseUnavailable."""
    async with connection(pool, seconds=_SECONDS) as conn:
        return (await conn.execute(_DELETE_OLD, [KEPT_DAYS, limit])).rowcount


async def _insert_disabled(conn: Connection, account_id: str, data: EndpointData, at: datetime) -> list[str]:
    """Have the account's other endpoints sent that one was disabled; returns their ids."""
    from webhooks.notices import complete_body, text_of

    others = await (await conn.execute(_LISTENERS, [account_id, data.endpoint_id])).fetchall()
    for (other,) in others:
        delivery_id = message_id(other, f"{data.endpoint_id} disabled {text_of(at)}")
        body = complete_body(delivery_id, "endpoint.disabled", text_of(at), data)
        await conn.execute(_INSERT_DISABLED, [delivery_id, other, body.decode()])
    return [other for (other,) in others]


def _leased(row: tuple[object, ...]) -> LeasedEndpoint:
    return msgspec.convert(dict(zip(LeasedEndpoint.__struct_fields__, row, strict=True)), LeasedEndpoint)


_ANY = "SELECT EXISTS (SELECT FROM webhook_endpoints WHERE disabled_at IS NULL)"

# Comparisons are with now(), which an index can be searched by. A lease that was given back ended then, so it
# says when the endpoint was sent to last. To insert deliveries locks endpoints FOR KEY SHARE: no conflict.
_LEASE = """
WITH ready AS (
    SELECT endpoint_id, leased_until,
           (SELECT count(*) FROM webhook_endpoints o
             WHERE o.account_id = e.account_id AND o.leased_until > now())
           + row_number() OVER (PARTITION BY account_id ORDER BY leased_until NULLS FIRST) AS turn
      FROM webhook_endpoints e
     WHERE disabled_at IS NULL AND (leased_until <= now()) IS NOT FALSE AND (not_before <= now()) IS NOT FALSE
       AND EXISTS (SELECT FROM webhook_deliveries d
                    WHERE d.endpoint_id = e.endpoint_id AND next_attempt_at <= now())
), taken AS (
    SELECT e.endpoint_id FROM webhook_endpoints e JOIN ready USING (endpoint_id)
     WHERE disabled_at IS NULL AND (e.leased_until <= now()) IS NOT FALSE
     ORDER BY turn, ready.leased_until NULLS FIRST LIMIT %(limit)s
       FOR NO KEY UPDATE OF e SKIP LOCKED
), leased AS (
    UPDATE webhook_endpoints e SET leased_until = clock_timestamp() + make_interval(secs => %(seconds)s)
      FROM taken WHERE e.endpoint_id = taken.endpoint_id RETURNING e.*
)
SELECT endpoint_id, account_id, url, payload, secret,
       CASE WHEN previous_until > now() THEN previous_secret END, failures, look_ups_failed, leased_until,
       (SELECT coalesce(json_agg(json_build_array(
                   delivery_id, type, position, body::text, tries, next_attempt_at)), '[]')
          FROM (SELECT * FROM webhook_deliveries d
                 WHERE d.endpoint_id = leased.endpoint_id AND next_attempt_at <= now()
                 ORDER BY next_attempt_at LIMIT %(batch)s) AS due)
  FROM leased
"""

_NEXT_DUE = """
SELECT count(*) > 0,
       extract(epoch FROM min(greatest(d.at, not_before, leased_until)) FILTER (WHERE d.at IS NOT NULL)
                          - now())::float8,
       coalesce(bool_or(d.at <= now() AND leased_until > now()), false)
  FROM webhook_endpoints e
  LEFT JOIN LATERAL (SELECT next_attempt_at AS at FROM webhook_deliveries
                      WHERE endpoint_id = e.endpoint_id AND next_attempt_at IS NOT NULL
                      ORDER BY next_attempt_at LIMIT 1) AS d ON true
 WHERE disabled_at IS NULL
"""

_RECORD = """
WITH outcomes AS (
    UPDATE webhook_deliveries d
       SET status = CASE WHEN d.next_attempt_at = r.due_at THEN r.status ELSE d.status END,
           tries = CASE WHEN d.next_attempt_at = r.due_at THEN r.tries ELSE d.tries END,
           next_attempt_at = CASE WHEN d.next_attempt_at = r.due_at
                                  THEN clock_timestamp() + make_interval(secs => r.wait)
                                  ELSE d.next_attempt_at END,
           attempts = CASE WHEN jsonb_array_length(d.attempts) < %(kept)s THEN d.attempts
                           ELSE d.attempts - 0 END || r.attempt
      FROM jsonb_to_recordset(%(outcomes)s) AS r
           (id text, due_at timestamptz, status text, tries integer, attempt jsonb, wait float8)
     WHERE d.delivery_id = r.id
), batches AS (
    SELECT r.*, e.disabled_at IS NULL AND (
               r.gone OR r.failed AND NOT r.succeeded
                  AND e.failing_since <= now() - make_interval(days => %(days)s)) AS disables
      FROM jsonb_to_recordset(%(batches)s) AS r
           (endpoint_id text, lease timestamptz, failures integer, look_ups_failed integer,
            pause_seconds float8, failed boolean, succeeded boolean, gone boolean)
      JOIN webhook_endpoints e ON e.endpoint_id = r.endpoint_id AND e.leased_until = r.lease
), ended AS (
    UPDATE webhook_endpoints e
       SET leased_until = clock_timestamp(), failures = r.failures, look_ups_failed = r.look_ups_failed,
           not_before = clock_timestamp() + make_interval(secs => r.pause_seconds),
           failing_since = CASE WHEN r.failures = 0 AND NOT r.gone THEN NULL
                                WHEN r.succeeded THEN clock_timestamp()
                                ELSE coalesce(e.failing_since, clock_timestamp()) END,
           disabled_at = CASE WHEN disables THEN clock_timestamp() ELSE e.disabled_at END,
           disabled_reason = CASE WHEN NOT disables THEN e.disabled_reason
                                  WHEN r.gone THEN 'gone' ELSE 'failing' END
      FROM batches r WHERE e.endpoint_id = r.endpoint_id AND e.leased_until = r.lease
    RETURNING e.endpoint_id, account_id, url, disabled_reason, disabled_at, disables
)
SELECT endpoint_id, account_id, url, disabled_reason, disabled_at FROM ended WHERE disables
"""

_LISTENERS = """
SELECT endpoint_id FROM webhook_endpoints
 WHERE account_id = %s AND endpoint_id <> %s AND disabled_at IS NULL AND 'endpoint.disabled' = ANY(events)
"""

_INSERT_DISABLED = """
INSERT INTO webhook_deliveries (delivery_id, endpoint_id, type, body, status, next_attempt_at)
VALUES (%s, %s, 'endpoint.disabled', %s, 'waiting', clock_timestamp()) ON CONFLICT (delivery_id) DO NOTHING
"""

# An endpoint has not had the oldest delivery that is due and has not failed, nor what is not inserted yet.
_FIGURES = """
SELECT count(*), count(*) FILTER (WHERE failures > 0), count(*) FILTER (WHERE waits),
       greatest(0, coalesce((SELECT max(notification_id) FROM conversation_events), 0)
                   - coalesce(min(reached) FILTER (WHERE failures = 0), 9223372036854775807))
  FROM (
    SELECT failures,
           EXISTS (SELECT FROM webhook_deliveries d
                    WHERE d.endpoint_id = e.endpoint_id AND next_attempt_at IS NOT NULL) AS waits,
           least(p.position, (
               SELECT position - 1 FROM webhook_deliveries d
                WHERE d.endpoint_id = e.endpoint_id AND next_attempt_at <= now()
                  AND tries = 0 AND position IS NOT NULL
                ORDER BY next_attempt_at LIMIT 1), (
               SELECT min(position) FROM webhook_cursors c
                WHERE c.endpoint_id = e.endpoint_id AND cursor_id <> c.endpoint_id AND NOT resend)) AS reached
      FROM webhook_endpoints e CROSS JOIN webhook_position p WHERE disabled_at IS NULL
  ) AS enabled
"""

_DELETE_OLD = """
DELETE FROM webhook_deliveries WHERE delivery_id IN (
    SELECT delivery_id FROM webhook_deliveries JOIN webhook_endpoints USING (endpoint_id)
     WHERE webhook_deliveries.created_at < clock_timestamp() - make_interval(days => %s)
       AND (next_attempt_at IS NULL OR disabled_at IS NOT NULL) LIMIT %s)
"""
