"""Decide when an endpoint is disabled, and whom to notify.

Called by `webhooks.delivery_queue.record_batch`.
"""

from collections.abc import Sequence
from datetime import datetime

from agentchat.contracts.webhooks import DisabledReason, EndpointData, derive_webhook_id
from agentchat.runtime.postgres import Connection
from agentchat.webhooks.webhook_bodies import encode_body, format_time

DISABLE_AFTER_DAYS = 5
"""How long after its first failure an endpoint without a success is disabled."""


def find_failing_since(
    before: datetime | None, now: datetime, *, failures: int, succeeded: bool, gone: bool
) -> datetime | None:
    """Return the time of the first failure that no success has followed.

    `before` is that time before a batch, `failures` are those in a row after it.
    """
    if failures == 0 and not gone:
        return None
    return now if before is None or succeeded else before


def decide_disabling(
    failing_since: datetime | None, now: datetime, *, failed: bool, succeeded: bool, gone: bool
) -> DisabledReason | None:
    """Return the reason to disable the endpoint after a batch; None to leave it enabled."""
    if gone:
        return "gone"
    if not failed or succeeded or failing_since is None:
        return None
    return "failing" if (now - failing_since).total_seconds() >= DISABLE_AFTER_DAYS * 86_400 else None


async def build_notifications(
    conn: Connection, account_id: str, data: EndpointData, at: datetime
) -> Sequence[tuple[str, str, str, str]]:
    """Build the deliveries that tell the account's other endpoints that one was disabled."""
    others = await (await conn.execute(_LISTENERS, [account_id, data.endpoint_id])).fetchall()
    found = []
    for (other,) in others:
        delivery_id = derive_webhook_id(other, f"{data.endpoint_id} disabled {format_time(at)}")
        body = encode_body(delivery_id, "endpoint.disabled", format_time(at), data)
        found.append((delivery_id, other, "endpoint.disabled", body.decode()))
    return found


_LISTENERS = """
SELECT endpoint_id FROM webhook_endpoints
 WHERE account_id = %s AND endpoint_id <> %s AND disabled_at IS NULL AND 'endpoint.disabled' = ANY(events)
"""
