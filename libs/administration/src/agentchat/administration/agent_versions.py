"""Make versions of agents: every change makes a new one, and a run keeps the version it started with.

Each function takes an open connection, since its callers change more in the same transaction.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import psycopg
from msgspec import UNSET
from msgspec.structs import asdict

from agentchat.administration.agent_rows import (
    AgentRow,
    Sealed,
    find_agent,
    open_fallbacks,
    open_headers,
    seal_fallback_keys,
    seal_headers,
    seal_key,
)
from agentchat.administration.audit_rows import record
from agentchat.contracts.admin_errors import Conflict, Invalid, NotFound
from agentchat.contracts.ids import make_id
from agentchat.directory.agent_config import AgentSettings, Fallback, McpServer
from agentchat.directory.agent_validation import AgentChanges, AgentDraft, validate_draft
from agentchat.directory.json_values import check_text
from agentchat.directory.request_parameters import DEFAULT_NAMES
from agentchat.directory.secret_encryption import Sealer
from agentchat.runtime.postgres import Connection

Servers = tuple[McpServer, ...]


async def create_agent(
    conn: Connection,
    sealer: Sealer,
    account_id: str,
    draft: AgentDraft,
    *,
    actor: str,
    agent_id: str | None = None,
    retention_days: int | None = None,
) -> str:
    """Create an agent at version 1; return its id. Raises Invalid, NotFound, Conflict."""
    draft = validate_draft(draft)
    agent_id = agent_id or make_id()
    async with conn.transaction():
        try:
            await conn.execute(
                "INSERT INTO agents (agent_id, account_id, current_version, retention_days) "
                "VALUES (%s, %s, 1, %s)",
                [agent_id, account_id, retention_days],
            )
        except psycopg.errors.ForeignKeyViolation:
            raise NotFound("account", account_id) from None
        except psycopg.errors.UniqueViolation:
            raise Conflict.from_existing("agent", agent_id) from None
        sealed = Sealed(
            seal_key(sealer, account_id, agent_id, draft.provider_key),
            seal_fallback_keys(sealer, account_id, agent_id, draft.fallbacks),
            seal_headers(sealer, account_id, agent_id, draft.mcp_servers),
        )
        config = _encode_config(draft)
        await _add_version(conn, agent_id, 1, config, sealed)
        after = {"account_id": account_id} | _describe_version(config, sealed)
        if retention_days is not None:
            after["retention_days"] = retention_days
        await record(conn, actor, "create", "agent", agent_id, after=after)
    return agent_id


async def change_agent(
    conn: Connection, sealer: Sealer, agent_id: str, changes: AgentChanges, *, actor: str
) -> int:
    """Make a new version, which answers from the next request on; return its number.

    `disabled` and `retention_days` make no version; active runs continue. A `note` is kept with the version.
    Raises Invalid, NotFound.
    """
    given = changes.to_dict()
    disabled = given.pop("disabled", None)
    days = given.pop("retention_days", UNSET)
    note = given.pop("note", "").strip()
    check_text(note, "note")
    async with conn.transaction():
        before = await find_agent(conn, agent_id, lock=True)
        version = before.version
        if given:
            version = await _change_settings(conn, sealer, before, given, actor, note)
        if disabled not in (None, before.disabled):
            await _set_disabled(conn, before, disabled, actor)
        if days not in (UNSET, before.retention_days):
            await _set_retention(conn, before, days, actor)
    return version


async def change_servers(
    conn: Connection, sealer: Sealer, agent_id: str, change: Callable[[Servers], Servers], *, actor: str
) -> int:
    """Make a new version with the tool servers that `change` returns, given the present ones with headers.

    If `change` raises, nothing changes. Raises Invalid, NotFound, SealBroken.
    """
    async with conn.transaction():
        before = await find_agent(conn, agent_id, lock=True)
        headers = open_headers(sealer, before.account_id, before.agent_id, before.mcp_headers)
        fields = asdict(before.settings)
        present = tuple(
            msgspec.structs.replace(server, headers=headers.get(server.name, {}))
            for server in fields["mcp_servers"]
        )
        draft = validate_draft(AgentDraft(**fields | {"mcp_servers": change(present)}))
        sealed = before.sealed
        if headers != {server.name: server.headers for server in draft.mcp_servers if server.headers}:
            fresh = seal_headers(sealer, before.account_id, before.agent_id, draft.mcp_servers)
            sealed = msgspec.structs.replace(sealed, mcp_headers=fresh)
        return await _add_next_version(conn, before, draft, sealed, actor)


async def restore_agent(conn: Connection, agent_id: str, version: int, *, actor: str) -> int:
    """Make a new version equal to an old one, with its secrets; return its number.

    Raises NotFound, and Invalid if the old configuration is no longer allowed.
    """
    async with conn.transaction():
        before = await find_agent(conn, agent_id, lock=True)
        old = await find_agent(conn, agent_id, version)
        draft = validate_draft(AgentDraft(**asdict(old.settings)))
        return await _add_next_version(conn, before, draft, old.sealed, actor, restored=version)


async def delete_agent(conn: Connection, agent_id: str, *, actor: str) -> None:
    """Delete an agent with all its versions; its active runs fail. Raises NotFound."""
    async with conn.transaction():
        before = await find_agent(conn, agent_id, lock=True)
        await conn.execute("DELETE FROM agents WHERE agent_id = %s", [before.agent_id])
        own = {"account_id": before.account_id, "version": before.version}
        shown = own | _describe_version(before.config, before.sealed)
        await record(conn, actor, "delete", "agent", before.agent_id, before=shown)


async def _change_settings(
    conn: Connection, sealer: Sealer, before: AgentRow, given: dict[str, Any], actor: str, note: str
) -> int:
    # Secrets that are not changed are copied as they are: sealed for this agent, not for a version of it.
    draft = validate_draft(AgentDraft(**asdict(before.settings) | given))
    sealed, owner = asdict(before.sealed), (sealer, before.account_id, before.agent_id)
    if "provider_key" in given:
        sealed["provider_key"] = seal_key(*owner, draft.provider_key)
    elif before.provider_key is not None:
        _check_key_stays(before.settings, draft)
    if "fallbacks" in given:
        kept = _keep_keys(open_fallbacks(sealer, before), draft.fallbacks)
        sealed["fallback_keys"] = seal_fallback_keys(*owner, kept)
    if "mcp_servers" in given:
        sealed["mcp_headers"] = seal_headers(*owner, draft.mcp_servers)
    return await _add_next_version(conn, before, draft, Sealed(**sealed), actor, note=note)


def _keep_keys(before: tuple[Fallback, ...], draft: tuple[Fallback, ...]) -> tuple[Fallback, ...]:
    """Give each fall-back without a `provider_key` that of its provider and base URL, first of its model."""

    def keep_key(each: Fallback) -> Fallback:
        same = [
            other for other in before if (other.provider, other.base_url) == (each.provider, each.base_url)
        ]
        if each.provider_key is not msgspec.UNSET or not same:
            return each
        nearest = min(same, key=lambda other: other.model != each.model)
        return msgspec.structs.replace(each, provider_key=nearest.provider_key)

    return tuple(map(keep_key, draft))


async def _set_disabled(conn: Connection, before: AgentRow, disabled: bool, actor: str) -> None:
    await conn.execute(
        "UPDATE agents SET disabled_at = CASE WHEN %s THEN now() END WHERE agent_id = %s",
        [disabled, before.agent_id],
    )
    shown = {"disabled": before.disabled}, {"disabled": disabled}
    action = "disable" if disabled else "enable"
    await record(conn, actor, action, "agent", before.agent_id, before=shown[0], after=shown[1])


async def _set_retention(conn: Connection, before: AgentRow, days: int | None, actor: str) -> None:
    await conn.execute("UPDATE agents SET retention_days = %s WHERE agent_id = %s", [days, before.agent_id])
    old, new = ({"retention_days": each} for each in (before.retention_days, days))
    await record(conn, actor, "change", "agent", before.agent_id, before=old, after=new)


async def _add_next_version(
    conn: Connection,
    before: AgentRow,
    draft: AgentDraft,
    sealed: Sealed,
    actor: str,
    restored: int | None = None,
    note: str = "",
) -> int:
    """Add the version after `before`, make it the current one, and write the audit row."""
    version, config = before.version + 1, _encode_config(draft)
    await _add_version(conn, before.agent_id, version, config, sealed)
    await conn.execute(
        "UPDATE agents SET current_version = %s WHERE agent_id = %s", [version, before.agent_id]
    )
    gone = {server.name for server in before.settings.mcp_servers} - {each.name for each in draft.mcp_servers}
    if gone:
        await conn.execute(_FORGET_AUTHORIZATIONS, [before.agent_id, list(gone)])
    changed = [
        name for name in Sealed.__struct_fields__ if getattr(sealed, name) != getattr(before.sealed, name)
    ]
    after = {"version": version} | _describe_version(config, sealed) | {"secrets_changed": changed}
    if restored is not None:
        after["restored"] = restored
    if note:
        after["note"] = note
    await record(
        conn,
        actor,
        "change" if restored is None else "restore",
        "agent",
        before.agent_id,
        before={"version": before.version} | _describe_version(before.config, before.sealed),
        after=after,
    )
    return version


_FORGET_AUTHORIZATIONS = "DELETE FROM mcp_authorizations WHERE agent_id = %s AND server = ANY(%s)"
"""Authorizations of removed servers: a later server of the same name is another one."""


async def _add_version(conn: Connection, agent_id: str, version: int, config: str, sealed: Sealed) -> None:
    await conn.execute(
        "INSERT INTO agent_versions (agent_id, version, config, provider_key, fallback_keys, mcp_headers) "
        "VALUES (%s, %s, %s, %s, %s, %s)",
        [agent_id, version, config, sealed.provider_key, sealed.fallback_keys, sealed.mcp_headers],
    )


def _encode_config(draft: AgentDraft) -> str:
    """Encode the draft without its secrets: no provider keys, no headers."""
    fields: dict[str, Any] = msgspec.to_builtins(draft)
    del fields["provider_key"]
    for name, default in _NEWER.items():  # services of an earlier release refuse fields that they do not know
        if getattr(draft, name) == default:
            del fields[name]
    for fallback in fields.get("fallbacks", ()):
        fallback.pop("provider_key", None)
    for server in fields["mcp_servers"]:
        server["headers"] = {}
        if not server["headers_from_request"]:
            del server["headers_from_request"]
    return msgspec.json.encode(fields).decode()


_NEWER = {
    "allow_request_schema": True,
    "on_tool_server_error": "continue",
    "request_parameters": DEFAULT_NAMES,
    "variables": (),
    "on_busy": "queue",
    "client_tools": "allowed",
    "reasoning": "hidden",
    "vision": None,
    "time_zone": "UTC",
    "fallbacks": (),
}
"""Defaults of fields that earlier releases do not have."""


def _check_key_stays(before: AgentSettings, draft: AgentDraft) -> None:
    """Check that a kept key stays with the provider it was given for. Raises Invalid."""
    if (before.provider, before.base_url) != (draft.provider, draft.base_url):
        raise Invalid("provider_key", "must be given again, or null, where provider or base_url changes")


def _describe_version(config: str, sealed: Sealed) -> dict[str, Any]:
    """Describe a version for an audit row, without its secrets."""
    shown: dict[str, Any] = msgspec.json.decode(config)
    return shown | {"has_provider_key": sealed.provider_key is not None}
