"""Create, show, change, check and delete agents. Every change makes a version, which can be restored."""

import asyncio
from collections.abc import Iterable

from agentchat.administration import admin_accounts, admin_conversations, deletion_impact
from agentchat.administration.admin import Admin
from agentchat.administration.admin_values import Agent, AgentVersion, Deletion, NewAgent, Page, Version
from agentchat.administration.agent_rows import build_agent, find_agent, list_agents
from agentchat.administration.agent_versions import change_agent, create_agent, delete_agent, restore_agent
from agentchat.administration.checked_input import parse_number, validate
from agentchat.administration.knowledge_rows import lock_base
from agentchat.administration.query_parameters import After, DryRun, Force, Limit, OfAccount
from agentchat.administration.row_pages import build_page, count_rows, fetch_page
from agentchat.bus.commands import check_agent
from agentchat.contracts.admin_errors import Conflict, Invalid, Use
from agentchat.contracts.ids import is_uuid
from agentchat.contracts.messages import AgentCheck
from agentchat.directory.agent_config import Fallback, McpServer, Retrieval
from agentchat.directory.agent_validation import AgentChanges, AgentDraft
from agentchat.runtime.postgres import Connection


async def create(admin: Admin, new: NewAgent) -> Agent:
    """Create an agent. Raises Invalid (for the account and the knowledge base too), Conflict."""
    new = validate(new)
    await _check_addresses(admin, new.base_url, new.mcp_servers, new.fallbacks)
    fields = {name: getattr(new, name) for name in AgentDraft.__struct_fields__}
    async with admin.transaction() as conn:
        account_id = await admin_accounts.find_named_account(conn, new.account_id)
        await _check_retrieval(conn, account_id, new.retrieval)
        agent_id = await create_agent(
            conn,
            admin.sealer,
            account_id,
            AgentDraft(**fields),
            actor=admin.actor,
            agent_id=new.id and new.id.lower(),
            retention_days=new.retention_days,
        )
        return build_agent(admin, await find_agent(conn, agent_id))


async def page(
    admin: Admin, account_id: OfAccount | None = None, *, after: After | None = None, limit: Limit = 20
) -> Page[Agent]:
    """List the current versions of agents, all or one account's, by id. Raises NotFound."""
    async with admin.connection() as conn:
        own = account_id and (await admin_accounts.find_account(conn, account_id)).id
        rows = await list_agents(admin, conn, own, after=after or "", limit=count_rows(limit))
    return build_page([build_agent(admin, row) for row in rows], limit)


async def get_current(admin: Admin, agent_id: str) -> Agent:
    """Get an agent's current version. Raises NotFound."""
    return await get(admin, agent_id)


async def get(admin: Admin, agent_id: str, version: Version | None = None) -> Agent:
    """Get a version of an agent, the current one if `version` is None. Raises NotFound."""
    async with admin.connection() as conn:
        return build_agent(admin, await find_agent(conn, agent_id, version))


async def change(admin: Admin, agent_id: str, changes: AgentChanges) -> Agent:
    """Change an agent: a new version, unless only `disabled` or `retention_days` change.

    Raises NotFound, Invalid.
    """
    changes = validate(changes)
    given = changes.to_dict()
    addresses = given.get("base_url"), given.get("mcp_servers") or (), given.get("fallbacks") or ()
    await _check_addresses(admin, *addresses)
    async with admin.transaction() as conn:
        present = await find_agent(conn, agent_id)
        await _check_retrieval(conn, present.account_id, given.get("retrieval"))
        await change_agent(conn, admin.sealer, agent_id, changes, actor=admin.actor)
        return build_agent(admin, await find_agent(conn, agent_id))


async def list_versions(
    admin: Admin, agent_id: str, *, after: After | None = None, limit: Limit = 20
) -> Page[AgentVersion]:
    """List an agent's versions, the newest first.

    Raises NotFound, Invalid for an `after` that is no version.
    """
    before = parse_number(after, "the number of a version")
    async with admin.connection() as conn:
        asked = {"agent": (await find_agent(conn, agent_id)).agent_id, "before": before}
        return await fetch_page(conn, AgentVersion, _VERSIONS, asked, limit, by="version")


async def restore(admin: Admin, agent_id: str, version: Version) -> Agent:
    """Make a new version equal to an old one, with its secrets. Raises NotFound, Invalid."""
    async with admin.connection() as conn:
        settings = (await find_agent(conn, agent_id, version)).settings
    await _check_addresses(admin, settings.base_url, settings.mcp_servers, settings.fallbacks)
    async with admin.transaction() as conn:
        old = await find_agent(conn, agent_id, version)
        await _check_retrieval(conn, old.account_id, old.settings.retrieval)
        await restore_agent(conn, agent_id, version, actor=admin.actor)
        return build_agent(admin, await find_agent(conn, agent_id))


async def delete(admin: Admin, agent_id: str, *, force: Force = False, dry_run: DryRun = False) -> Deletion:
    """Delete an agent with all its versions; with force also while it has runs or conversations.

    With `force` its conversations stay, for other agents to continue, and its runs may fail. A run that
    begins in the same moment is not seen. Raises NotFound, Conflict, Unavailable.
    """
    if not (dry_run or force):
        await get(admin, agent_id)
        await admin_conversations.wait_for_projector(admin)
    async with admin.connection() as conn:  # nothing is counted within the transaction that deletes
        row = await find_agent(conn, agent_id)
        used = (
            await deletion_impact.list_agent_uses(conn, row.account_id, row.agent_id)
            if dry_run or not force
            else ()
        )
    if not dry_run:
        if used and not force:
            raise _build_conflict(used)
        async with admin.transaction() as conn:
            await delete_agent(conn, row.agent_id, actor=admin.actor)
    return Deletion(
        kind="agent",
        id=row.agent_id,
        dry_run=dry_run,
        needs_force=dry_run and not force and bool(used),
        goes=(Use("versions", row.current_version),),
        used_by=used,
    )


async def check(admin: Admin, agent_id: str) -> AgentCheck:
    """Check that the agent's provider and MCP servers work, in up to 20 s. Raises NotFound, Unavailable."""
    bus = admin.need_bus()
    async with admin.connection() as conn:
        row = await find_agent(conn, agent_id)
    return await check_agent(bus.rpc, row.account_id, row.agent_id, row.version)


def _build_conflict(uses: tuple[Use, ...]) -> Conflict:
    listed = " and ".join(f"{use.count} {use.kind if use.count > 1 else use.kind[:-1]}" for use in uses)
    return Conflict(f"the agent has {listed}; force deletes it all the same", uses)


async def _check_addresses(
    admin: Admin, base_url: str | None, servers: Iterable[McpServer], fallbacks: Iterable[Fallback]
) -> None:
    """Check that calls to these addresses are allowed, resolving names concurrently. Raises Invalid."""
    checks = [
        admin.check_tool_url(server.url, f"mcp_servers[{place}].url") for place, server in enumerate(servers)
    ]
    urls = {"base_url": base_url}
    urls |= {f"fallbacks[{place}].base_url": each.base_url for place, each in enumerate(fallbacks)}
    checks += [admin.check_model_url(url, field) for field, url in urls.items() if url is not None]
    await asyncio.gather(*checks)


async def _check_retrieval(conn: Connection, account_id: str, retrieval: Retrieval | None) -> None:
    """Check that the knowledge base exists, and lock it for the transaction. Raises Invalid."""
    if retrieval is None:
        return
    base_id = retrieval.knowledge_base_id
    if not is_uuid(base_id) or not await lock_base(conn, account_id, base_id):
        raise Invalid("retrieval.knowledge_base_id", "the account has no such knowledge base")


_VERSIONS = """
SELECT v.version, v.version = g.current_version, v.created_at, v.name, v.model,
       (g.canary ->> v.version::text)::integer, made.actor, made.after ->> 'note',
       (made.after ->> 'restored')::integer
FROM agents g JOIN agent_versions v ON v.agent_id = g.agent_id
LEFT JOIN LATERAL (
     SELECT actor, after FROM audit_log
      WHERE subject = g.agent_id AND kind = 'agent' AND action IN ('create', 'change', 'restore')
        AND coalesce((after ->> 'version')::integer, 1) = v.version
      ORDER BY id LIMIT 1) AS made ON true
WHERE g.agent_id = %(agent)s AND v.version < coalesce(%(before)s::integer, v.version + 1)
ORDER BY v.version DESC"""
