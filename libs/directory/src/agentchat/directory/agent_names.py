"""An account's agents by what callers may call them: an id, or a name that no other of them has."""

from collections.abc import Sequence

import msgspec

from agentchat.contracts.ids import is_uuid
from agentchat.contracts.text import is_storable
from agentchat.directory.agent_config import MAX_NAME
from agentchat.runtime.batched_statement import BatchedStatement, Form, Rows, index_rows
from agentchat.runtime.postgres import Pool, acquire_connection


class NamedAgent(msgspec.Struct, frozen=True):
    """An enabled agent. `created` is in Unix seconds, `same_name` counts the agents of its name."""

    agent_id: str
    name: str
    created: int
    same_name: int

    @property
    def public_name(self) -> str:
        """Its name where that is enough, and can stand in an address; else its id."""
        is_usable = "/" not in self.name and self.name not in (".", "..") and not is_uuid(self.name.lower())
        return self.name if self.same_name == 1 and is_usable else self.agent_id


async def list_named_agents(pool: Pool, account_id: str) -> list[NamedAgent]:
    """The account's enabled agents, the oldest first. Raises DatabaseUnavailable within 3 s."""
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_LIST, [account_id])).fetchall()
    return [NamedAgent(*row) for row in rows]


def find_named_agent(agents: Sequence[NamedAgent], name: str) -> NamedAgent | None:
    """That which `AgentNames` finds in the account that has these enabled agents."""
    found = [agent for agent in agents if agent.agent_id == name.lower()]
    found = found or [agent for agent in agents if agent.name == name]
    return found[0] if len(found) == 1 else None


class _Asked(msgspec.Struct, frozen=True):
    account_id: str
    name: str


class AgentNames:
    """Looks up what agents are called, all calls that wait together. Close with `aclose`, before the pool."""

    def __init__(self, pool: Pool) -> None:
        self._statement = BatchedStatement(pool, Form(_RESOLVE, _parameters, _results))

    async def resolve(self, account_id: str, name: str) -> str | None:
        """The id of the enabled agent that has it or, where none does, of the only one with this name.

        Raises DatabaseUnavailable within 3 s.
        """
        if len(name) > MAX_NAME or "\x00" in name or not is_storable(name):
            return None
        return await self._statement.call(_Asked(account_id, name))

    async def aclose(self) -> None:
        await self._statement.aclose()


def _parameters(batch: Sequence[_Asked]) -> Sequence[object]:
    names = [asked.name for asked in batch]
    return [asked.account_id for asked in batch], [name.lower() for name in names], names


def _results(batch: Sequence[_Asked], rows: Rows) -> Sequence[str | None]:
    found = index_rows(rows)
    return [found[place][1] for place in range(len(batch))]


_LIST = """
SELECT g.agent_id, v.name, extract(epoch FROM g.created_at)::bigint, count(*) OVER (PARTITION BY v.name)
  FROM agents g JOIN agent_versions v ON v.agent_id = g.agent_id AND v.version = g.current_version
 WHERE g.account_id = %s AND g.disabled_at IS NULL ORDER BY g.created_at, g.agent_id
"""

# Where the id finds one, no name is looked at.
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
