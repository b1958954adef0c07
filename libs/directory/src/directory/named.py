"""An account's agents by what callers may call them: an id, or a name that no other of them has."""

import msgspec
from psycopg import sql

from contracts.ids import is_uuid
from runtime.postgres import Pool, connection


class NamedAgent(msgspec.Struct, frozen=True):
    """An enabled agent. `created` is in Unix seconds, `same_name` counts the agents of its name."""

    agent_id: str
    name: str
    created: int
    same_name: int

    @property
    def called(self) -> str:
        """Its name where that is enough, and can stand in an address; else its id."""
        is_usable = "/" not in self.name and self.name not in (".", "..") and not is_uuid(self.name.lower())
        return self.name if self.same_name == 1 and is_usable else self.agent_id


async def named_agents(pool: Pool, account_id: str) -> list[NamedAgent]:
    """The account's enabled agents, the oldest first. Raises DatabaseUnavailable within 3 s."""
    async with connection(pool) as conn:
        rows = await (await conn.execute(_ALL, [account_id])).fetchall()
    return [NamedAgent(*row) for row in rows]


async def agent_called(pool: Pool, account_id: str, name: str) -> NamedAgent | None:
    """The enabled agent with this id, or the only one with this name.

    Raises DatabaseUnavailable within 3 s.
    """
    agent_id = name.lower()
    async with connection(pool) as conn:
        cursor = await conn.execute(_CALLED, [account_id, agent_id, name, agent_id], prepare=True)
        found = [NamedAgent(*row) for row in await cursor.fetchall()]
    return found[0] if len(found) == 1 or (found and found[0].agent_id == agent_id) else None


_ENABLED = sql.SQL("""
SELECT g.agent_id, v.name, extract(epoch FROM g.created_at)::bigint, count(*) OVER (PARTITION BY v.name)
  FROM agents g JOIN agent_versions v ON v.agent_id = g.agent_id AND v.version = g.current_version
 WHERE g.account_id = %s AND g.disabled_at IS NULL
""")

_ALL = _ENABLED + sql.SQL("ORDER BY g.created_at, g.agent_id")

# All are counted before some are chosen: one that is found by its id may share its name.
_CALLED = sql.SQL("""
SELECT * FROM ({}) AS enabled WHERE agent_id = %s OR name = %s ORDER BY agent_id <> %s LIMIT 2
""").format(_ENABLED)
