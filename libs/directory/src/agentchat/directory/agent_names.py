"""Find an account's agents by id, or by a name that no other agent of the account has."""

from collections.abc import Sequence

import msgspec

from agentchat.contracts.ids import is_uuid
from agentchat.contracts.text import is_storable
from agentchat.directory.agent_config import MAX_NAME
from agentchat.runtime.batched_statement import BatchedStatement, Form, Rows, index_rows
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
    """Return the agent with this id or unique name, by the same rule as `AgentNames.resolve`."""
    found = [agent for agent in agents if agent.agent_id == name.lower()]
    found = found or [agent for agent in agents if agent.name == name]
    return found[0] if len(found) == 1 else None


class _NameLookup(msgspec.Struct, frozen=True):
    account_id: str
    name: str


class AgentNames:
    """Resolves ids and names of agents; concurrent calls share one statement.

    Close it before the pool.
    """

    def __init__(self, pool: Pool) -> None:
        self._statement = BatchedStatement(pool, Form(_RESOLVE, _build_parameters, _read_results))

    async def resolve(self, account_id: str, name: str) -> str | None:
        """Return the id of the enabled agent with this id, or else with this unique name.

        Raises:
            DatabaseUnavailable: Within 3 s.
        """
        if len(name) > MAX_NAME or "\x00" in name or not is_storable(name):
            return None
        return await self._statement.call(_NameLookup(account_id, name))

    async def aclose(self) -> None:
        """Wait for statements under way, then refuse new ones."""
        await self._statement.aclose()


def _build_parameters(batch: Sequence[_NameLookup]) -> Sequence[object]:
    names = [lookup.name for lookup in batch]
    return [lookup.account_id for lookup in batch], [name.lower() for name in names], names


def _read_results(batch: Sequence[_NameLookup], rows: Rows) -> Sequence[str | None]:
    found = index_rows(rows)
    return [found[place][1] for place in range(len(batch))]


_LIST = """
SELECT g.agent_id, v.name, extract(epoch FROM g.created_at)::bigint, count(*) OVER (PARTITION BY v.name)
  FROM agents g JOIN agent_versions v ON v.agent_id = g.agent_id AND v.version = g.current_version
 WHERE g.account_id = %s AND g.disabled_at IS NULL ORDER BY g.created_at, g.agent_id
"""

# The name is only looked up if the id finds no agent.
_RESOLVE = b"""
SELECT asked.place, coalesce(g.agent_id, named.agent_id)
  FROM unnest(%b::text[], %b::text[], %b::text[]) WITH ORDINALITY AS asked (account_id, agent_id, name, place)
  LEFT JOIN agents g
    ON g.agent_id = asked.agent_id AND g.account_id = asked.account_id AND g.disabled_at IS NULL
  LEFT JOIN LATERAL (
       SELECT min(n.agent_id) AS agent_id
         FROM agents n JOIN agent_versions v ON v.agent_id = n.agent_id AND v.version = n.current_version
        WHERE g.agent_id IS NULL AND n.account_id = asked.account_id AND n.disabled_at IS NULL
          AND v.name = asked.name
       HAVING count(*) = 1) AS named ON true
"""
