"""List an account's deliveries, resend them, or send a test event."""

import re
from typing import Any, LiteralString

import msgspec

from agentchat.contracts.admin_errors import Conflict, NotFound
from agentchat.contracts.examples import CONVERSATION, REPLY, TRACE
from agentchat.contracts.ids import make_id
from agentchat.contracts.webhooks import (
    ApprovalData,
    BudgetData,
    ConversationData,
    Delivery,
    DeliveryStatus,
    Endpoint,
    EndpointData,
    EventType,
    FeedbackData,
    RunData,
    derive_webhook_id,
)
from agentchat.runtime.postgres import Connection, Pool, acquire_connection
from agentchat.webhooks import endpoints
from agentchat.webhooks.delivery_queue import INSERT_READY
from agentchat.webhooks.endpoints import Note
from agentchat.webhooks.webhook_bodies import encode_body, format_time

_ID = re.compile(r"msg_[0-9a-f]{32}\Z")
_DISABLED = "the endpoint is disabled; enable it first"


async def list_deliveries(
    pool: Pool,
    account_id: str,
    endpoint_id: str,
    *,
    status: DeliveryStatus | None,
    before: str | None,
    limit: int,
) -> tuple[list[Delivery], str | None]:
    """List up to `limit` deliveries, the newest first, and the id of the last one if there are more.

    `before` is such an id: places count the deliveries of all accounts. Deliveries before one that was
    deleted as too old are gone too. Raises NotFound,
    DatabaseUnavailable.
    """
    async with acquire_connection(pool) as conn:
        found = await endpoints.load_endpoint(conn, account_id, endpoint_id)
        asked = {"endpoint": found.id, "status": status, "before": before, "limit": limit + 1}
        rows = await (await conn.execute(_PAGE, asked)).fetchall()
    more = rows[limit - 1][0] if len(rows) > limit else None
    return [_build_delivery(row) for row in rows[:limit]], more


async def get_delivery(pool: Pool, account_id: str, endpoint_id: str, delivery_id: str) -> Delivery:
    """Return a delivery of an endpoint of the account. Raises NotFound, DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        found = await endpoints.load_endpoint(conn, account_id, endpoint_id)
        return await _load_delivery(conn, found.id, delivery_id)


async def resend_delivery(
    pool: Pool, account_id: str, delivery_id: str, *, note: Note | None = None
) -> Delivery:
    """Send a delivery again at once, under its own id; erased ones stay unsent.

    `note` as in `endpoints.change_endpoint`. Raises NotFound, Conflict, DatabaseUnavailable.
    """
    async with acquire_connection(pool) as conn, conn.transaction():
        endpoint_id = await _find_endpoint(conn, account_id, delivery_id)
        await _load_enabled(conn, account_id, endpoint_id)
        await conn.execute(_RESEND, [delivery_id])
        await _send_now(conn, endpoint_id)
        delivery = await _load_delivery(conn, endpoint_id, delivery_id)
        if note is not None:
            await note(conn, None, delivery)
        return delivery


async def send_test(pool: Pool, account_id: str, endpoint_id: str, type_: EventType) -> Delivery:
    """Send an example of an event at once. Raises NotFound, Conflict, DatabaseUnavailable."""
    async with acquire_connection(pool) as conn, conn.transaction():
        found = await _load_enabled(conn, account_id, endpoint_id)
        delivery_id = derive_webhook_id(found.id, make_id())
        row = await (await conn.execute("SELECT clock_timestamp()")).fetchone()
        assert row is not None, "SELECT without FROM gives one row"
        body = encode_body(delivery_id, type_, format_time(row[0]), _build_example(type_, found))
        await conn.execute(INSERT_READY, [delivery_id, found.id, type_, body.decode()])
        await _send_now(conn, found.id)
        return await _load_delivery(conn, found.id, delivery_id)


async def _load_enabled(conn: Connection, account_id: str, endpoint_id: str) -> Endpoint:
    found = await endpoints.load_endpoint(conn, account_id, endpoint_id, lock=True)
    if found.disabled:
        raise Conflict(_DISABLED)
    return found


async def _send_now(conn: Connection, endpoint_id: str) -> None:
    """End the pause that the endpoint has because of failures."""
    await conn.execute("UPDATE webhook_endpoints SET not_before = NULL WHERE endpoint_id = %s", [endpoint_id])


async def _find_endpoint(conn: Connection, account_id: str, delivery_id: str) -> str:
    row = await (await conn.execute(_ENDPOINT_OF, [_check_id(delivery_id), account_id])).fetchone()
    if row is None:
        raise NotFound("delivery", delivery_id)
    return str(row[0])


async def _load_delivery(conn: Connection, endpoint_id: str, delivery_id: str) -> Delivery:
    row = await (await conn.execute(_ONE, [endpoint_id, _check_id(delivery_id)])).fetchone()
    if row is None:
        raise NotFound("delivery", delivery_id)
    return _build_delivery(row)


def _check_id(delivery_id: str) -> str:
    if not _ID.match(delivery_id):
        raise NotFound("delivery", delivery_id[:100])
    return delivery_id


def _build_delivery(row: tuple[Any, ...]) -> Delivery:
    """Build a delivery from a row of `_SHOWN`."""
    return msgspec.convert(dict(zip(Delivery.__struct_fields__, row, strict=True)), Delivery)


def _build_example(type_: EventType, endpoint: Endpoint) -> object:
    """Return example data, with ids of nothing that exists."""
    place: dict[str, Any] = {"position": 0, "conversation_id": CONVERSATION, "version": 1}
    match type_.partition(".")[0]:
        case "endpoint":
            return EndpointData(endpoint_id=endpoint.id, url=endpoint.url, reason="failing")
        case "budget":
            return BudgetData(month="2026-11", budget=100, cost=100, currency="USD")
        case "conversation":
            return ConversationData(**place)
        case "approval":
            return ApprovalData(**place, trace_id=TRACE, approval_id=CONVERSATION)
        case "feedback":
            return FeedbackData(**place, trace_id=TRACE, message_id=REPLY)
        case _:
            return RunData(**place, trace_id=TRACE)


_SHOWN: LiteralString = """
SELECT delivery_id, type, position, status, attempts, next_attempt_at, created_at
  FROM webhook_deliveries WHERE endpoint_id =
"""
_PAGE = f"""{_SHOWN} %(endpoint)s AND status = coalesce(%(status)s, status)
   AND place < CASE WHEN %(before)s::text IS NULL THEN 9223372036854775807 ELSE coalesce((
       SELECT place FROM webhook_deliveries
        WHERE delivery_id = %(before)s AND endpoint_id = %(endpoint)s), 0) END
 ORDER BY place DESC LIMIT %(limit)s"""  # noqa: S608 - our own parts
_ONE = f"{_SHOWN} %s AND delivery_id = %s"

_ENDPOINT_OF = """
SELECT endpoint_id FROM webhook_deliveries JOIN webhook_endpoints USING (endpoint_id)
 WHERE delivery_id = %s AND account_id = %s
"""

_RESEND = """
UPDATE webhook_deliveries
   SET status = CASE WHEN body IS NULL THEN 'erased' ELSE 'waiting' END, tries = 0,
       next_attempt_at = CASE WHEN body IS NOT NULL THEN clock_timestamp() END
 WHERE delivery_id = %s
"""
