"""An account's agents by what callers may call them: an id, or a name that no other of them has."""

import msgspec

from runtime.postgres import Pool, connection


class NamedAgent(msgspec.Struct, frozen=True):
    """An enabled agent. `created` is in Unix seconds, `same_name` counts the agents of its name."""

    agent_id: str
    name: str
    created: int
    same_name: int

    @property
    def called(self) -> str:
        """Its name where that is enough, else its id."""
        return self.name if self.same_name == 1 else self.agent_id


async def named_agents(pool: Pool, account_id: str) -> list[NamedAgent]:
    """The account's enabled agents, the oldest first. Raises DatabaseUnavailable within 3 s."""
    async with connection(pool) as conn:
        rows = await (await conn.execute(_ALL, [account_id])).fetchall()
    return [NamedAgent(*row) for row in rows]


async def agent_called(pool: Pool, account_id: str, name: str) -> NamedAgent | None:
    """The enabled agent with this id, or the only one with this name.

    Raises DatabaseUnavailable within 3 s.
    """
    async with connection(pool) as conn:
        rows = await (await conn.execute(_CALLED, [account_id, name.lower(), name], prepare=True)).fetchall()
    found = [NamedAgent(*row) for row in rows]
    by_id = next((agent for agent in found if agent.agent_id == name.lower()), None)
    return by_id or (found[0] if len(found) == 1 else None)


_ALL = """
SELECT g.agent_id, v.name, extract(epoch FROM g.created_at)::bigint, count(*) OVER (PARTITION BY v.name)
  FROM agents g JOIN agent_versions v ON v.agent_id = g.agent_id AND v.version = g.current_version
 WHERE g.account_id = %s AND g.disabled_at IS NULL
 ORDER BY g.created_at, g.agent_id
"""

_CALLED = """
SELECT g.agent_id, v.name, extract(epoch FROM g.created_at)::bigint, count(*) OVER (PARTITION BY v.name)
  FROM agents g JOIN agent_versions v ON v.agent_id = g.agent_id AND v.version = g.current_version
 WHERE g.account_id = %s AND g.disabled_at IS NULL AND (g.agent_id = %s OR v.name = %s)
 LIMIT 3
"""
