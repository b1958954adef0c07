"""Agents as they are stored: for lists, for a change, and to be shown."""

from datetime import datetime
from typing import Any

import msgspec

from directory.administration.agent_secrets import Sealed
from directory.agents import AgentSettings
from directory.errors import NotFound
from runtime.postgres import Connection


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A version of an agent, and the agent; `config` is JSON. `created_at` is the agent's, `changed_at` the
    version's.
    """

    agent_id: str
    account_id: str
    current_version: int
    disabled: bool
    created_at: datetime
    version: int
    changed_at: datetime
    config: str
    sealed: Sealed


class VersionLine(msgspec.Struct, frozen=True):
    """A version in a list."""

    version: int
    created_at: datetime
    name: str
    model: str


def config_of(config: str) -> AgentSettings:
    """The configuration that a row holds; its headers are empty."""
    return msgspec.json.decode(config, type=AgentSettings)


async def account_of(conn: Connection, agent_id: str) -> str | None:
    """Whose agent it is; None where there is none."""
    cursor = await conn.execute("SELECT account_id FROM agents WHERE agent_id = %s", [agent_id])
    row = await cursor.fetchone()
    return None if row is None else row[0]


async def lock_current(conn: Connection, account_id: str, agent_id: str) -> Row:
    """The current version, the agent's row held until the transaction ends. Raises NotFound.

    Locked first and read then: one statement would read the version of before the wait for the lock.
    """
    await conn.execute(
        "SELECT FROM agents WHERE agent_id = %s AND account_id = %s FOR UPDATE", [agent_id, account_id]
    )
    row = await version_row(conn, account_id, agent_id, None)
    if row is None:
        raise NotFound("agent", agent_id)
    return row


async def version_row(conn: Connection, account_id: str, agent_id: str, version: int | None) -> Row | None:
    """A version of the account's agent, disabled or not; without `version` the current one."""
    cursor = await conn.execute(_VERSION, {"account": account_id, "agent": agent_id, "version": version})
    row = await cursor.fetchone()
    return None if row is None else _row(row)


async def list_agents(
    conn: Connection, account_id: str | None, *, after: str = "", limit: int = 100
) -> list[Row]:
    """The current versions of the agents, of one account or of all, with ids after `after`, by id."""
    cursor = await conn.execute(_AGENTS, {"account": account_id, "after": after, "limit": limit})
    return [_row(row) for row in await cursor.fetchall()]


async def list_versions(
    conn: Connection, agent_id: str, *, before: int | None = None, limit: int = 100
) -> list[VersionLine]:
    """The agent's versions below `before`, the newest first."""
    cursor = await conn.execute(
        "SELECT version, created_at, name, model FROM agent_versions "
        "WHERE agent_id = %(agent)s AND version < coalesce(%(before)s::integer, 2147483647) "
        "ORDER BY version DESC LIMIT %(limit)s",
        {"agent": agent_id, "before": before, "limit": limit},
    )
    return [VersionLine(*row) for row in await cursor.fetchall()]


async def agents_that_use(conn: Connection, account_id: str, knowledge_base_id: str) -> list[Row]:
    """The account's agents whose current versions look in this knowledge base."""
    cursor = await conn.execute(
        f"{_AGENT} AND v.version = g.current_version WHERE g.account_id = %s "
        "AND v.config -> 'retrieval' ->> 'knowledge_base_id' = %s ORDER BY g.agent_id",
        [account_id, knowledge_base_id],
    )
    return [_row(row) for row in await cursor.fetchall()]


def _row(row: tuple[Any, ...]) -> Row:
    *values, key, headers = row
    names = Row.__struct_fields__[:-1]
    return Row(**dict(zip(names, values, strict=True)), sealed=Sealed(key, headers))


_AGENT = """
SELECT g.agent_id, g.account_id, g.current_version, g.disabled_at IS NOT NULL, g.created_at,
       v.version, v.created_at, v.config::text, v.provider_key, v.mcp_headers
FROM agents g JOIN agent_versions v ON v.agent_id = g.agent_id"""

_VERSION = f"""{_AGENT} AND v.version = coalesce(%(version)s::integer, g.current_version)
WHERE g.agent_id = %(agent)s AND g.account_id = %(account)s
"""

_AGENTS = f"""{_AGENT} AND v.version = g.current_version
WHERE g.account_id = coalesce(%(account)s::text, g.account_id) AND g.agent_id > %(after)s
ORDER BY g.agent_id LIMIT %(limit)s
"""
