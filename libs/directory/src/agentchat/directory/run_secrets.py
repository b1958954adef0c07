"""Keep the secrets of a request, sealed, for the tool calls of its run.

A gateway saves them before it publishes the request, tool-runners open them. The table is that of the library
`conversations`, which deletes a row with the end of its run.
"""

from collections.abc import Mapping

import msgspec

from agentchat.directory.secret_encryption import Sealer
from agentchat.runtime.postgres import Pool, acquire_connection


async def save_run_secrets(
    pool: Pool, sealer: Sealer, account_id: str, trace_id: str, secrets: Mapping[str, str]
) -> None:
    """Seal and store the secrets of a run; they replace earlier ones. Raises DatabaseUnavailable."""
    plain = msgspec.json.encode(secrets).decode()
    sealed = sealer.seal(plain, owner=build_secrets_owner(account_id, trace_id))
    async with acquire_connection(pool) as conn:
        await conn.execute(_SAVE, [trace_id, account_id, sealed])


async def load_run_secrets(pool: Pool, sealer: Sealer, account_id: str, trace_id: str) -> dict[str, str]:
    """Return the secrets of a run by name; none if it has none, or has ended.

    Raises:
        DatabaseUnavailable
        SealBroken
    """
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(_LOAD, [trace_id, account_id])).fetchone()
    if row is None:
        return {}
    plain = sealer.open(row[0], owner=build_secrets_owner(account_id, trace_id))
    return msgspec.json.decode(plain, type=dict[str, str])


def build_secrets_owner(account_id: str, trace_id: str) -> str:
    """Return the owner that a run's secrets are sealed for: they open nowhere else."""
    return f"{account_id}/{trace_id}/run_secrets"


_SAVE = """
INSERT INTO run_secrets (trace_id, account_id, sealed) VALUES (%s, %s, %s)
ON CONFLICT (trace_id) DO UPDATE SET sealed = excluded.sealed, created_at = excluded.created_at
"""

_LOAD = "SELECT sealed FROM run_secrets WHERE trace_id = %s AND account_id = %s"
