"""Queue deliveries: rows that are claimed, sent by `webhooks.webhook_sender`, and recorded.

A claim moves `next_attempt_at` of a delivery ahead. If the process dies, the delivery is due again by then
and is sent a second time under the same id.
"""

from collections.abc import Collection, Sequence

import msgspec

from agentchat.contracts import wire
from agentchat.contracts.webhooks import Attempt, DeliveryStatus, DisabledReason, EndpointData
from agentchat.runtime.postgres import Connection, Pool, acquire_connection
from agentchat.webhooks.endpoint_disabling import build_notifications, decide_disabling, find_failing_since

CLAIM_SECONDS = 35.0
"""A delivery whose sender died is sent again after this time."""

MAX_ATTEMPTS_KEPT = 20
"""The number of last attempts of a delivery that are kept."""

KEPT_DAYS = 31
"""A finished delivery, or one whose endpoint is disabled, is deleted after this time.

It is longer than a month, in which `budget_notices` would queue it again.
"""

_SECONDS = 10.0


class DueDelivery(msgspec.Struct, frozen=True, array_like=True):
    """A claimed delivery. It was due at `due_at`, and is due again at `claimed_until`."""

    id: str
    type: str
    conversation_id: str | None
    body: str
    tries: int
    due_at: str
    claimed_until: str


class DueEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint with the oldest of its due deliveries.

    `failures` are those in a row. If there is a `previous_secret`, it signs too. `now` is the database's time
    in seconds since 1970.
    """

    id: str
    account_id: str
    url: str
    secret: bytes
    previous_secret: bytes | None
    failures: int
    now: float
    due: list[DueDelivery]


class AttemptOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one attempt; `tries` have failed in a row.

    The next attempt is in `wait` seconds, if any.
    """

    id: str
    claimed_until: str
    status: DeliveryStatus
    tries: int
    attempt: Attempt
    wait: float | None = None


class BatchResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a batch: attempts, and deliveries that were not attempted.

    Nothing is sent to the endpoint within `pause_seconds`. `gone`: the receiver answered 410. If the endpoint
    has another address than `url` by now, only the attempts are recorded.
    """

    endpoint_id: str
    url: str
    outcomes: list[AttemptOutcome]
    unattempted: list[DueDelivery]
    failures: int
    pause_seconds: float | None
    failed: bool
    succeeded: bool
    gone: bool


class EndpointFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of enabled endpoints.

    All, those whose last attempt failed, those with a delivery to come. `behind`: deliveries that are due for
    the first time to endpoints that do not fail.
    """

    endpoints: int
    failing: int
    waiting: int
    behind: int


async def claim_due(pool: Pool, busy: Collection[str], *, limit: int, batch: int) -> list[DueEndpoint]:
    """Claim up to `batch` due deliveries of each of up to `limit` endpoints, without those in `busy`.

    Accounts take turns. Raises DatabaseUnavailable.
    """
    given = {"busy": list(busy), "limit": limit, "batch": batch, "seconds": CLAIM_SECONDS}
    async with acquire_connection(pool, seconds=_SECONDS) as conn:
        rows = await (await conn.execute(_CLAIM, given)).fetchall()
    fields = DueEndpoint.__struct_fields__
    return [msgspec.convert(dict(zip(fields, row, strict=True)), DueEndpoint) for row in rows]


async def record_batch(pool: Pool, result: BatchResult) -> DisabledReason | None:
    """Record a batch; return the reason if it disables the endpoint.

    A delivery that was resent or erased since it was claimed stays so. Raises DatabaseUnavailable.
    """
    outcomes = [msgspec.structs.asdict(each) | {"attempt": [each.attempt]} for each in result.outcomes]
    unattempted = [
        {"id": each.id, "claimed_until": each.claimed_until, "due_at": each.due_at}
        for each in result.unattempted
    ]
    async with acquire_connection(pool, seconds=_SECONDS) as conn, conn.transaction():
        row = await (await conn.execute(_LOCK_ENDPOINT, [result.endpoint_id])).fetchone()
        if row is None:
            return None  # deleted meanwhile, with its deliveries
        account_id, url, is_enabled, failing_since, now = row
        given = {"outcomes": wire.encode(outcomes).decode(), "kept": MAX_ATTEMPTS_KEPT}
        await conn.execute(_RECORD, given)
        await conn.execute(_GIVE_BACK, [wire.encode(unattempted).decode()])
        if url != result.url:
            return None  # the outcome says nothing about the endpoint's new address
        ends = {"succeeded": result.succeeded, "gone": result.gone}
        reason = decide_disabling(failing_since, now, failed=result.failed, **ends) if is_enabled else None
        changes = {
            "id": result.endpoint_id,
            "failures": result.failures,
            "pause": result.pause_seconds,
            "failing_since": find_failing_since(failing_since, now, failures=result.failures, **ends),
            "reason": reason,
        }
        await conn.execute(_UPDATE_ENDPOINT, changes)
        if reason is not None:
            data = EndpointData(endpoint_id=result.endpoint_id, url=url, reason=reason)
            for delivery in await build_notifications(conn, account_id, data, now):
                await conn.execute(INSERT_READY, delivery)
    return reason


async def erase_bodies(conn: Connection, conversation_ids: Sequence[str]) -> None:
    """Delete the bodies of erased conversations; waiting deliveries are not sent."""
    await conn.execute(_ERASE, [list(conversation_ids)])


async def erase_bodies_of_events(
    conn: Connection, conversation_ids: Sequence[str], positions: Sequence[int]
) -> None:
    """Delete the bodies that tell of single events; waiting deliveries are not sent."""
    await conn.execute(_ERASE + " AND position = ANY(%s)", [list(conversation_ids), list(positions)])


async def erase_budgets_of_user(conn: Connection, account_id: str, user_id: str) -> None:
    """Delete the bodies that tell of a user's budget; waiting deliveries are not sent."""
    await conn.execute(_ERASE_BUDGETS, [account_id, user_id])


async def load_figures(pool: Pool) -> EndpointFigures:
    """Count enabled endpoints and their due deliveries. Raises DatabaseUnavailable."""
    async with acquire_connection(pool, seconds=_SECONDS) as conn:
        row = await (await conn.execute(_FIGURES)).fetchone()
    assert row is not None, "an aggregate gives one row"
    return EndpointFigures(**dict(zip(EndpointFigures.__struct_fields__, row, strict=True)))


async def delete_old_deliveries(pool: Pool, limit: int) -> int:
    """Delete up to `limit` deliveries that are older than KEPT_DAYS. Raises DatabaseUnavailable."""
    async with acquire_connection(pool, seconds=_SECONDS) as conn:
        return (await conn.execute(_DELETE_OLD, [KEPT_DAYS, limit])).rowcount


# Compares with now(), which an index can be searched by. A failing endpoint gets one at a time.
_CLAIM = """
WITH ready AS (
    SELECT endpoint_id, failures FROM (
        SELECT endpoint_id, failures, not_before,
               row_number() OVER (PARTITION BY account_id ORDER BY not_before NULLS FIRST) AS turn
          FROM webhook_endpoints e
         WHERE disabled_at IS NULL AND (not_before <= now()) IS NOT FALSE AND endpoint_id <> ALL(%(busy)s)
           AND EXISTS (SELECT FROM webhook_deliveries d
                        WHERE d.endpoint_id = e.endpoint_id AND next_attempt_at <= now())
    ) AS endpoints ORDER BY turn, not_before NULLS FIRST LIMIT %(limit)s
), due AS (
    SELECT picked.* FROM ready CROSS JOIN LATERAL (
        SELECT delivery_id, next_attempt_at AS due_at FROM webhook_deliveries d
         WHERE d.endpoint_id = ready.endpoint_id AND next_attempt_at <= now()
         ORDER BY next_attempt_at, place LIMIT %(batch)s FOR UPDATE SKIP LOCKED) AS picked
), claimed AS (
    UPDATE webhook_deliveries d SET next_attempt_at = clock_timestamp() + make_interval(secs => %(seconds)s)
      FROM due WHERE d.delivery_id = due.delivery_id RETURNING d.*, due.due_at
)
SELECT e.endpoint_id, e.account_id, e.url, e.secret,
       CASE WHEN previous_until > now() THEN previous_secret END, e.failures,
       extract(epoch FROM clock_timestamp())::float8,
       json_agg(json_build_array(delivery_id, type, conversation_id, body, tries, due_at, next_attempt_at)
                ORDER BY due_at, place)
  FROM claimed JOIN webhook_endpoints e USING (endpoint_id) GROUP BY e.endpoint_id
"""

_LOCK_ENDPOINT = """
SELECT account_id, url, disabled_at IS NULL, failing_since, clock_timestamp()
  FROM webhook_endpoints WHERE endpoint_id = %s FOR NO KEY UPDATE
"""

_RECORD = """
UPDATE webhook_deliveries d
   SET status = CASE WHEN d.next_attempt_at = r.claimed_until THEN r.status ELSE d.status END,
       tries = CASE WHEN d.next_attempt_at = r.claimed_until THEN r.tries ELSE d.tries END,
       next_attempt_at = CASE WHEN d.next_attempt_at = r.claimed_until
                              THEN clock_timestamp() + make_interval(secs => r.wait)
                              ELSE d.next_attempt_at END,
       attempts = CASE WHEN jsonb_array_length(d.attempts) < %(kept)s THEN d.attempts
                       ELSE d.attempts - 0 END || r.attempt
  FROM jsonb_to_recordset(%(outcomes)s) AS r
       (id text, claimed_until timestamptz, status text, tries integer, attempt jsonb, wait float8)
 WHERE d.delivery_id = r.id
"""

_GIVE_BACK = """
UPDATE webhook_deliveries d SET next_attempt_at = r.due_at
  FROM jsonb_to_recordset(%s) AS r (id text, claimed_until timestamptz, due_at timestamptz)
 WHERE d.delivery_id = r.id AND d.next_attempt_at = r.claimed_until
"""

_UPDATE_ENDPOINT = """
UPDATE webhook_endpoints
   SET failures = %(failures)s, failing_since = %(failing_since)s,
       not_before = clock_timestamp() + make_interval(secs => %(pause)s),
       disabled_at = CASE WHEN %(reason)s::text IS NULL THEN disabled_at ELSE clock_timestamp() END,
       disabled_reason = coalesce(%(reason)s, disabled_reason)
 WHERE endpoint_id = %(id)s
"""

INSERT_READY = """
INSERT INTO webhook_deliveries (delivery_id, endpoint_id, type, body, status, next_attempt_at)
VALUES (%s, %s, %s, %s, 'waiting', clock_timestamp()) ON CONFLICT (delivery_id) DO NOTHING
"""
"""Insert a delivery that is no event of the log."""

_ERASE = """
UPDATE webhook_deliveries
   SET body = NULL, next_attempt_at = NULL,
       status = CASE WHEN status = 'waiting' THEN 'erased' ELSE status END
 WHERE conversation_id = ANY(%s) AND type <> 'conversation.deleted'
"""

_ERASE_BUDGETS = """
UPDATE webhook_deliveries
   SET body = NULL, next_attempt_at = NULL,
       status = CASE WHEN status = 'waiting' THEN 'erased' ELSE status END
 WHERE endpoint_id IN (SELECT endpoint_id FROM webhook_endpoints WHERE account_id = %s)
   AND type LIKE 'budget.%%' AND body::json -> 'data' ->> 'user_id' = %s
"""

_FIGURES = """
SELECT count(*), count(*) FILTER (WHERE failures > 0), count(*) FILTER (WHERE waits),
       coalesce(sum(due) FILTER (WHERE failures = 0), 0)::bigint
  FROM (
    SELECT failures,
           EXISTS (SELECT FROM webhook_deliveries d
                    WHERE d.endpoint_id = e.endpoint_id AND next_attempt_at IS NOT NULL) AS waits,
           (SELECT count(*) FROM webhook_deliveries d
             WHERE d.endpoint_id = e.endpoint_id AND next_attempt_at IS NOT NULL AND tries = 0) AS due
      FROM webhook_endpoints e WHERE disabled_at IS NULL
  ) AS enabled
"""

_DELETE_OLD = """
DELETE FROM webhook_deliveries WHERE delivery_id IN (
    SELECT delivery_id FROM webhook_deliveries JOIN webhook_endpoints USING (endpoint_id)
     WHERE webhook_deliveries.created_at < now() - make_interval(days => %s)
       AND (next_attempt_at IS NULL OR disabled_at IS NOT NULL) LIMIT %s)
"""
