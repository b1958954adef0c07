"""Find an account's agents by id, or by a name that no other agent of the account has."""

from collections.abc import Sequence

import msgspec

from agentchat.contracts.ids import is_uuid
from agentchat.contracts.text_checks import is_storable
from agentchat.directory.agent_config import MAX_NAME
from agentchat.runtime.postgres import Pool, acquire_connection


class NamedAgent(msgspec.Struct, frozen=True):
    """An enabled agent. `same_name` counts the account's agents with its name."""

    agent_id: str
    name: str
    created: int
    same_name: int

    @property
    def public_name(self) -> str:
        """The name if it is unique and fits into a URL path, otherwise the id."""
        is_usable = "/" not in self.name and self.name not in (".", "..") and not is_uuid(self.name.lower())
        return self.name if self.same_name == 1 and is_usable else self.agent_id


async def list_named_agents(pool: Pool, account_id: str) -> list[NamedAgent]:
    """Return the account's enabled agents, the oldest first.

    Raises:
        DatabaseUnavailable: Within 3 s.
    """
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_LIST, [account_id])).fetchall()
    return [NamedAgent(*row) for row in rows]


def find_named_agent(agents: Sequence[NamedAgent], name: str) -> NamedAgent | None:
    """Return the agent with this id or unique name, by the same rule as `find_agent_id`."""
    found = [agent for agent in agents if agent.agent_id == name.lower()]
    found = found or [agent for agent in agents if agent.name == name]
    return found[0] if len(found) == 1 else None


async def find_agent_id(pool: Pool, account_id: str, name: str) -> str | None:
    """Return the id of the enabled agent with this id, or else with this unique name.

    Raises:
        DatabaseUnavailable: Within 3 s.
    """
    if len(name) > MAX_NAME or "\x00" in name or not is_storable(name):
        return None
    given = {"account": account_id, "id": name.lower(), "name": name}
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(_FIND, given, prepare=True)).fetchone()
    return None if row is None else row[0]


_LIST = """
SELECT g.agent_id, v.name, extract(epoch FROM g.created_at)::bigint, count(*) OVER (PARTITION BY v.name)
  FROM agents g JOIN agent_versions v ON v.agent_id = g.agent_id AND v.version = g.current_version
 WHERE g.account_id = %s AND g.disabled_at IS NULL ORDER BY g.created_at, g.agent_id
"""

_FIND = """
SELECT agent_id FROM agents
 WHERE agent_id = %(id)s AND account_id = %(account)s AND disabled_at IS NULL
UNION ALL
SELECT min(n.agent_id)
  FROM agents n JOIN agent_versions v ON v.agent_id = n.agent_id AND v.version = n.current_version
 WHERE n.account_id = %(account)s AND n.disabled_at IS NULL AND v.name = %(name)s
HAVING count(*) = 1 LIMIT 1
"""
"""The second half is only executed if the first finds no agent."""
