"""Load the names of accounts and agents for pages that show them to people."""

from collections.abc import Collection

import msgspec

from agentchat.runtime.postgres import Pool, acquire_connection


class DisplayNames(msgspec.Struct, frozen=True):
    """Names by id. `owners` has the names of the agents' accounts by agent id."""

    accounts: dict[str, str]
    agents: dict[str, str]
    owners: dict[str, str] = {}


async def load_display_names(
    pool: Pool, account_ids: Collection[str], agent_ids: Collection[str]
) -> DisplayNames:
    """Return the names of these accounts and agents. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        accounts = await (await conn.execute(_ACCOUNTS, [[*account_ids]])).fetchall()
        agents = await (await conn.execute(_AGENTS, [[*agent_ids]])).fetchall()
    return DisplayNames(
        accounts=dict(accounts),
        agents={agent_id: name for agent_id, name, _ in agents},
        owners={agent_id: owner for agent_id, _, owner in agents},
    )


class AgentOption(msgspec.Struct, frozen=True):
    """An agent in a list to choose from."""

    id: str
    name: str
    account: str


async def list_agent_names(
    pool: Pool, limit: int | None = None, *, account_ids: Collection[str] | None = None
) -> list[AgentOption]:
    """Return agents of all accounts or of some, by account name and own name, without their configurations.

    Raises:
        DatabaseUnavailable: If Postgres does not answer.
    """
    async with acquire_connection(pool) as conn:
        limited = None if account_ids is None else list(account_ids)
        rows = await (await conn.execute(_ALL_AGENTS, {"limited": limited, "limit": limit})).fetchall()
    return [AgentOption(*row) for row in rows]


_ACCOUNTS = "SELECT account_id, name FROM accounts WHERE account_id = ANY(%s)"

_AGENTS = """
SELECT agent.agent_id, version.name, account.name
  FROM agents AS agent
  JOIN accounts AS account ON account.account_id = agent.account_id
  JOIN agent_versions AS version
    ON version.agent_id = agent.agent_id AND version.version = agent.current_version
 WHERE agent.agent_id = ANY(%s)
"""

_ALL_AGENTS = """
SELECT agent.agent_id, version.name, account.name
  FROM agents AS agent
  JOIN accounts AS account ON account.account_id = agent.account_id
  JOIN agent_versions AS version
    ON version.agent_id = agent.agent_id AND version.version = agent.current_version
 WHERE %(limited)s::text[] IS NULL OR agent.account_id = ANY (%(limited)s)
 ORDER BY lower(account.name), lower(version.name), agent.agent_id LIMIT %(limit)s
"""
