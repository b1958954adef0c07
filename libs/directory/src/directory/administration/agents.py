"""Agents: every change makes a new version, and a run goes on with the version it began with."""

from typing import Any

import msgspec
import psycopg

from contracts.ids import new_id
from directory.administration.audit import record
from directory.agent_draft import AgentChanges, AgentDraft, checked
from directory.agents import McpServer, seal_owner
from directory.errors import Conflict, NotFound
from directory.secrets import Sealer
from runtime.postgres import Connection


async def create_agent(
    conn: Connection,
    sealer: Sealer,
    account_id: str,
    draft: AgentDraft,
    *,
    actor: str,
    agent_id: str | None = None,
) -> str:
    """A new agent of the account, at version 1; returns its id. Raises Invalid, NotFound, Conflict."""
    draft = checked(draft)
    agent_id = agent_id or new_id()
    async with conn.transaction():
        try:
            await conn.execute(
                "INSERT INTO agents (agent_id, account_id, current_version) VALUES (%s, %s, 1)",
                [agent_id, account_id],
            )
        except psycopg.errors.ForeignKeyViolation:
            raise NotFound("account", account_id) from None
        except psycopg.errors.UniqueViolation:
            raise Conflict("agent", agent_id) from None
        headers = _sealed_headers(sealer, account_id, agent_id, draft.mcp_servers)
        key = _sealed_key(sealer, account_id, agent_id, draft.provider_key)
        config = _config(draft)
        await _add_version(conn, agent_id, 1, config, key, headers)
        await record(conn, actor, "create", "agent", agent_id, after=msgspec.Raw(config.encode()))
    return agent_id


async def change_agent(
    conn: Connection, sealer: Sealer, account_id: str, agent_id: str, changes: AgentChanges, *, actor: str
) -> int:
    """A new version of the agent, which answers from the next request on; returns its number.

    Raises Invalid, NotFound (for another account's agent too).
    """
    async with conn.transaction():
        current, config, key, headers = await _current(conn, account_id, agent_id)
        given = changes.given()
        # Secrets that are not changed are copied as they are: sealed for this agent, not for a version of it.
        draft = checked(AgentDraft(**_fields(msgspec.json.decode(config)) | given))
        if "provider_key" in given:
            key = _sealed_key(sealer, account_id, agent_id, draft.provider_key)
        if "mcp_servers" in given:
            headers = _sealed_headers(sealer, account_id, agent_id, draft.mcp_servers)
        changed = _config(draft)
        await _add_version(conn, agent_id, current + 1, changed, key, headers)
        await conn.execute(
            "UPDATE agents SET current_version = %s WHERE agent_id = %s", [current + 1, agent_id]
        )
        before, after = msgspec.Raw(config.encode()), msgspec.Raw(changed.encode())
        await record(conn, actor, "change", "agent", agent_id, before=before, after=after)
    return current + 1


async def set_agent_disabled(
    conn: Connection, account_id: str, agent_id: str, disabled: bool, *, actor: str
) -> None:
    """Take an agent out of service, or back in; a run that has begun goes on. Raises NotFound."""
    async with conn.transaction():
        cursor = await conn.execute(
            "UPDATE agents SET disabled_at = CASE WHEN %s THEN coalesce(disabled_at, now()) END "
            "WHERE agent_id = %s AND account_id = %s",
            [disabled, agent_id, account_id],
        )
        if cursor.rowcount == 0:
            raise NotFound("agent", agent_id)
        await record(conn, actor, "disable" if disabled else "enable", "agent", agent_id)


async def _current(
    conn: Connection, account_id: str, agent_id: str
) -> tuple[int, str, bytes | None, bytes | None]:
    cursor = await conn.execute(
        "SELECT v.version, v.config::text, v.provider_key, v.mcp_headers FROM agents g "
        "JOIN agent_versions v ON v.agent_id = g.agent_id AND v.version = g.current_version "
        "WHERE g.agent_id = %s AND g.account_id = %s FOR UPDATE OF g",
        [agent_id, account_id],
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("agent", agent_id)
    return row


async def _add_version(
    conn: Connection, agent_id: str, version: int, config: str, key: bytes | None, headers: bytes | None
) -> None:
    await conn.execute(
        "INSERT INTO agent_versions (agent_id, version, config, provider_key, mcp_headers) "
        "VALUES (%s, %s, %s, %s, %s)",
        [agent_id, version, config, key, headers],
    )


def _config(draft: AgentDraft) -> str:
    """The draft as it is stored in the open: no provider key, no header."""
    fields: dict[str, Any] = msgspec.to_builtins(draft)
    del fields["provider_key"]
    for server in fields["mcp_servers"]:
        server["headers"] = {}
    return msgspec.json.encode(fields).decode()


def _fields(config: dict[str, Any]) -> dict[str, Any]:
    draft = msgspec.convert(config, AgentDraft)
    return {name: getattr(draft, name) for name in draft.__struct_fields__}


def _sealed_key(sealer: Sealer, account_id: str, agent_id: str, key: str | None) -> bytes | None:
    return sealer.seal(key, owner=seal_owner(account_id, agent_id, "provider_key")) if key else None


def _sealed_headers(
    sealer: Sealer, account_id: str, agent_id: str, servers: tuple[McpServer, ...]
) -> bytes | None:
    headers = {server.name: server.headers for server in servers if server.headers}
    owner = seal_owner(account_id, agent_id, "mcp_headers")
    return sealer.seal(msgspec.json.encode(headers).decode(), owner=owner) if headers else None
