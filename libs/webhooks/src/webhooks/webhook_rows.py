"""What those who write the tables and the notifier agree on."""

from runtime.postgres import Connection

CHANNEL = "webhook_endpoints"
"""The notifier that leads is told on it, by the endpoint's id, that there is something to do."""


def seal_owner(account_id: str, endpoint_id: str) -> str:
    """What an endpoint's secret is bound to: its bytes do not open elsewhere."""
    return f"{account_id}/{endpoint_id}/webhook_secret"


async def tell(conn: Connection, endpoint_id: str) -> None:
    """Tell the notifier, when the transaction commits."""
    await conn.execute("SELECT pg_notify(%s, %s)", [CHANNEL, endpoint_id])
