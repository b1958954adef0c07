"""Create and update the demo's accounts, keys and agents when a stack starts.

An administrator's changes are kept, except those that depend on the start: the shop server's address and the
providers.
"""

import contextlib
from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from agentchat.administration import Admin, admin_accounts, admin_agents, admin_keys, admin_knowledge
from agentchat.administration.admin_values import NewAccount, NewKnowledgeBase
from agentchat.administration.agent_versions import change_agent, create_agent
from agentchat.contracts.admin_errors import Conflict, NotFound
from agentchat.directory.agent_config import AgentConfig, McpServer, Retrieval, load_agent, load_provider_key
from agentchat.directory.agent_validation import AgentChanges, AgentDraft
from agentchat.directory.api_keys import get_last4
from agentchat.directory.approval_policy import ApprovalRules, ToolFilter
from agentchat.directory.errors import SealBroken
from agentchat.directory.secret_encryption import Sealer
from agentchat.knowledge.demo import KNOWLEDGE_BASE_ID, load_demo_documents
from agentchat.knowledge.demo import NAME as BASE_NAME
from agentchat.knowledge.embedding.embedder import Embedder
from agentchat.knowledge.embedding.vectors import check_usable
from agentchat.knowledge.importing.importer import import_document
from agentchat.ops import demo
from agentchat.ops.demo import Demo
from agentchat.runtime.postgres import Connection, open_pool

_ACTOR = "agentchat up"
_OFFLINE_PREFIX = "demo-"
_SECONDS = 30.0


async def seed(
    database_url: str,
    secret_key: str,
    data: Demo,
    previous_secret_keys: Sequence[str] = (),
    embedder: Embedder | None = None,
) -> None:
    """Create what is missing and update what has changed. Safe to repeat.

    Raises:
        DatabaseUnavailable, AdminError
    """
    sealer = Sealer.from_setting(secret_key, previous_secret_keys)
    async with open_pool(database_url, role=None) as pool:
        admin = Admin(pool=pool, sealer=sealer, actor=_ACTOR, embedder=await check_usable(pool, embedder))
        for account_id, name, plan, api_key in _list_accounts(data):
            await _seed_account(admin, account_id, name, plan, api_key)
        await _seed_policies(admin)
        for account_id, agent_id, draft in _list_agents(data):
            await _seed_agent(admin, account_id, agent_id, draft)


def _list_accounts(data: Demo) -> list[tuple[str, str, str, str]]:
    return [
        (demo.ACCOUNT_ID, "Demo", "Pro", data.api_key),
        (demo.STARTER_ACCOUNT_ID, "Demo Starter", "Starter", data.starter_api_key),
        (demo.LOAD_ACCOUNT_ID, "Demo Load", "Unlimited", data.load_api_key),
    ]


_CANNOT_BE_UNDONE = ApprovalRules(always=ToolFilter(tool_names=("cancel_order",)))


def _list_agents(data: Demo) -> list[tuple[str, str, AgentDraft]]:
    key = data.anthropic_key or demo.OFFLINE_KEY
    model = demo.ANTHROPIC_MODEL if data.anthropic_key else demo.OFFLINE_MODEL
    load_model = demo.ANTHROPIC_MODEL if data.anthropic_key else demo.OFFLINE_LOAD_MODEL
    shop = AgentDraft(
        name="Shop assistant",
        model=model,
        system_prompt=demo.SHOP_PROMPT,
        parameters={"max_tokens": 4096},
        mcp_servers=(McpServer(name=demo.SHOP_SERVER, url=data.mcp_url, require_approval=_CANNOT_BE_UNDONE),),
        provider_key=key,
    )
    openai = msgspec.structs.replace(
        shop,
        name="Shop assistant, by OpenAI",
        provider="openai",
        model=demo.OPENAI_MODEL if data.openai_key else demo.OFFLINE_MODEL,
        parameters={},
        provider_key=data.openai_key or demo.OFFLINE_KEY,
    )
    load = AgentDraft(
        name="Load",
        model=load_model,
        system_prompt=demo.LOAD_PROMPT,
        parameters={"max_tokens": 4096},
        provider_key=key,
    )
    policies = AgentDraft(
        name="Policy assistant",
        model=model,
        system_prompt=demo.POLICY_PROMPT,
        parameters={"max_tokens": 4096},
        retrieval=Retrieval(knowledge_base_id=KNOWLEDGE_BASE_ID, top_k=4),
        provider_key=key,
    )
    return [
        (demo.ACCOUNT_ID, demo.AGENT_ID, shop),
        (demo.ACCOUNT_ID, demo.RETRIEVAL_AGENT_ID, policies),
        (demo.ACCOUNT_ID, demo.OPENAI_AGENT_ID, openai),
        (demo.STARTER_ACCOUNT_ID, demo.STARTER_AGENT_ID, shop),
        (demo.LOAD_ACCOUNT_ID, demo.LOAD_AGENT_ID, load),
    ]


async def _seed_policies(admin: Admin) -> None:
    """Create the knowledge base with the shop's policies, and import changed documents."""
    base = NewKnowledgeBase(account_id=demo.ACCOUNT_ID, name=BASE_NAME, id=KNOWLEDGE_BASE_ID)
    try:
        await admin_knowledge.get(admin, KNOWLEDGE_BASE_ID)
    except NotFound:
        await admin_knowledge.create(admin, base)
    for document in load_demo_documents():
        await import_document(
            admin.pool,
            demo.ACCOUNT_ID,
            KNOWLEDGE_BASE_ID,
            document,
            note=admin.note,
            embedder=admin.embedder,
        )


async def _seed_account(admin: Admin, account_id: str, name: str, plan: str, api_key: str) -> None:
    try:
        await admin_accounts.get(admin, account_id)
    except NotFound:
        await admin_accounts.create(admin, NewAccount(name=name, plan=plan, id=account_id))
    async with admin.connection(_SECONDS) as conn:
        if await _has_made_key(conn, account_id, api_key):
            return  # it may have been rotated or revoked since
    with contextlib.suppress(Conflict):
        await admin_keys.add(admin, account_id, api_key, name="demo")


async def _has_made_key(conn: Connection, account_id: str, api_key: str) -> bool:
    """Return True if an earlier start made this key; the audit log knows rotated keys too."""
    cursor = await conn.execute(_HAD_KEY, [_ACTOR, account_id, get_last4(api_key)])
    return await cursor.fetchone() is not None


async def _seed_agent(admin: Admin, account_id: str, agent_id: str, draft: AgentDraft) -> None:
    current = await _load_current_agent(admin, account_id, agent_id)
    if current is None:
        try:
            await admin_agents.get(admin, agent_id)  # disabled by an administrator
        except NotFound:
            async with admin.connection(_SECONDS) as conn:
                await create_agent(conn, admin.sealer, account_id, draft, actor=_ACTOR, agent_id=agent_id)
        return
    changes = _find_changes(current, await _load_key(admin, current), draft)
    if changes.to_dict():
        async with admin.connection(_SECONDS) as conn:
            await change_agent(conn, admin.sealer, agent_id, changes, actor=_ACTOR)


async def _load_current_agent(admin: Admin, account_id: str, agent_id: str) -> AgentConfig | None:
    """Load the agent with its servers' headers, which a change of address would lose otherwise."""
    try:
        return await load_agent(admin.pool, account_id, agent_id, sealer=admin.sealer)
    except SealBroken:
        return await load_agent(admin.pool, account_id, agent_id)  # the secret key is a new one


async def _load_key(admin: Admin, agent: AgentConfig) -> str | None:
    try:
        return await load_provider_key(
            admin.pool, admin.sealer, agent.account_id, agent.agent_id, agent.version
        )
    except SealBroken:
        return None


def _find_changes(current: AgentConfig, current_key: str | None, draft: AgentDraft) -> AgentChanges:
    """Find the changes that the agent needs to work in this stack."""
    is_offline, to_be_offline = (name.startswith(_OFFLINE_PREFIX) for name in (current.model, draft.model))
    addresses = {server.name: server.url for server in draft.mcp_servers}
    servers = tuple(
        msgspec.structs.replace(server, url=addresses.get(server.name, server.url))
        for server in current.mcp_servers
    )
    return AgentChanges(
        model=UNSET if is_offline == to_be_offline else draft.model,
        provider_key=UNSET if current_key == draft.provider_key else draft.provider_key,
        mcp_servers=UNSET if servers == current.mcp_servers else servers,
    )


_HAD_KEY = """
SELECT FROM audit_log WHERE actor = %s AND action = 'create' AND kind = 'key'
   AND after ->> 'account_id' = %s AND after ->> 'last4' = %s LIMIT 1
"""
