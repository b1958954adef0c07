"""A look, at a service's start, whether its secret key is the one that the database is sealed under."""

from directory.secrets import Sealer
from runtime.postgres import DatabaseUnavailable, Pool, connection
from runtime.settings import SettingsError


async def refuse_unknown_key(pool: Pool, sealer: Sealer) -> None:
    """Raises SettingsError where there are sealed values of current versions and the keys open none of them.

    Where Postgres does not answer yet, nothing is said: what cannot be opened is found out one by one then.
    """
    try:
        async with connection(pool) as conn:
            row = await (await conn.execute(_SEALED, [list(sealer.key_ids)])).fetchone()
    except DatabaseUnavailable:
        return
    if row is not None and row[0] and not row[1]:
        raise SettingsError(
            f"AGENTCHAT_SECRET_KEY opens none of the {row[0]} secrets in the database: set the key that "
            "sealed them, or add it to AGENTCHAT_SECRET_KEY_PREVIOUS"
        )


_SEALED = """
SELECT count(*), count(*) FILTER (WHERE substring(sealed FROM 2 FOR 4) = ANY(%s))
  FROM agents g JOIN agent_versions v ON v.agent_id = g.agent_id AND v.version = g.current_version
       CROSS JOIN LATERAL (VALUES (v.provider_key), (v.mcp_headers)) AS held (sealed)
 WHERE sealed IS NOT NULL
"""
