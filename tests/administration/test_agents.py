"""Agents and their tool servers: what the admin API and the commands share beyond what HTTP shows."""

import asyncio
import os

import msgspec
import psycopg
import pytest
from msgspec.structs import replace

from agentchat.administration import (
    Admin,
    admin_accounts,
    admin_agents,
    admin_audit,
    admin_knowledge,
    admin_mcp_servers,
)
from agentchat.administration.admin_values import (
    Account,
    NewAccount,
    NewAgent,
    NewKnowledgeBase,
    SecretHint,
    ServerBody,
)
from agentchat.contracts import events
from agentchat.contracts.admin_errors import Conflict, Invalid, NotFound, Unavailable
from agentchat.contracts.ids import make_id, make_unlisted_id
from agentchat.contracts.values import Usage
from agentchat.conversations.event_store.conversation_store import open_store
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.projections import conversations_table as threads
from agentchat.conversations.projections import runs_table
from agentchat.conversations.projections.read_model_follower import Follower
from agentchat.directory.agent_config import (
    Fallback,
    McpServer,
    Retrieval,
    load_agent,
    load_provider_key,
    unseal_provider_key,
    use_fallback,
)
from agentchat.directory.agent_validation import AgentChanges
from agentchat.directory.secret_encryption import Sealer
from agentchat.net_guard import Guard
from agentchat.runtime.postgres import Pool
from agentchat.tool_runner.servers.agent_servers import AgentServers
from tests.administration.conftest import SEALER

HEADERS = {"Authorization": "Bearer canary-header"}
SHOP = McpServer(name="shop", url="https://shop.example/mcp", headers=HEADERS)


async def make(admin: Admin, account: Account, **more: object) -> str:
    given = {"name": "Shop", "model": "m", "provider_key": "canary-provider-key", "mcp_servers": (SHOP,)}
    made = await admin_agents.create(admin, NewAgent(account_id=account.id, **given | more))  # type: ignore[arg-type]
    return str(made.id)


async def test_changes_at_the_same_time_are_versions_one_after_the_other(
    admin: Admin, account: Account
) -> None:
    agent = await make(admin, account)
    renamed = [admin_agents.change(admin, agent, AgentChanges(name=f"Shop {n}")) for n in range(6)]
    added = [
        admin_mcp_servers.put(admin, agent, f"s{n}", ServerBody(url="https://s.example")) for n in range(6)
    ]
    await asyncio.gather(*renamed, *added)
    versions = (await admin_agents.list_versions(admin, agent)).items
    assert [each.version for each in versions] == list(range(13, 0, -1))
    names = {server.name for server in await admin_mcp_servers.list_servers(admin, agent)}
    assert names == {"shop", *(f"s{n}" for n in range(6))}


async def test_a_restored_version_answers_with_its_own_secrets(
    admin: Admin, account: Account, pool: Pool
) -> None:
    agent = await make(admin, account)
    changes = AgentChanges(provider_key="canary-second-key", mcp_servers=(), system_prompt="Other.")
    await admin_agents.change(admin, agent, changes)
    restored = await admin_agents.restore(admin, agent, 1)
    assert restored.version == 3
    assert await load_provider_key(pool, SEALER, account.id, agent, 3) == "canary-provider-key"
    config = await load_agent(pool, account.id, agent, sealer=SEALER)
    assert config is not None
    assert config.mcp_servers == (SHOP,)
    with pytest.raises(NotFound, match="no such version: 9"):
        await admin_agents.restore(admin, agent, 9)


async def test_fall_backs_keep_their_keys_at_their_servers(
    admin: Admin, account: Account, pool: Pool
) -> None:
    """A key that is left out stays at its provider and base URL; without one the agent's own is used."""
    gpt = Fallback(provider="openai", model="gpt", provider_key="canary-key-of-gpt")
    haiku = Fallback(provider="anthropic", model="haiku", parameters={})
    agent = await make(admin, account, fallbacks=(gpt, haiku), parameters={"max_tokens": 9})

    async def load_keys(version: int) -> list[str | None]:
        config = await load_agent(pool, account.id, agent, version)
        assert config is not None
        numbers = range(1, len(config.fallbacks) + 1)
        return [unseal_provider_key(SEALER, use_fallback(config, number)) for number in numbers]

    async def change(*fallbacks: Fallback) -> list[str | None]:
        changed = await admin_agents.change(admin, agent, AgentChanges(fallbacks=fallbacks))
        return await load_keys(changed.version)

    own = "canary-provider-key"
    assert await load_keys(1) == ["canary-key-of-gpt", own]
    newer = Fallback(provider="openai", model="gpt-newer")
    assert await change(haiku, newer) == [own, "canary-key-of-gpt"]
    assert await change(replace(newer, base_url="https://other.example")) == [None]
    assert (await admin_agents.restore(admin, agent, 2)).fallbacks[1].provider_key == SecretHint(
        set=True, last4="-gpt"
    )
    assert await change(replace(newer, provider_key=None), haiku) == [None, own]
    with pytest.raises(Invalid, match=r"^fallbacks\[0\]: is the agent's own model"):
        await change(Fallback(provider="anthropic", model="m"))
    shown = [await admin_agents.get(admin, agent, version) for version in (1, 2, 5)]
    rows = (await admin_audit.page(admin, subject=agent)).items
    assert "canary" not in msgspec.json.encode((shown, rows)).decode()
    assert "canary" not in repr((gpt, shown, rows))


async def test_version_with_a_deleted_knowledge_base_is_not_restored(admin: Admin, account: Account) -> None:
    base = await admin_knowledge.create(admin, NewKnowledgeBase(account_id=account.id, name="Policies"))
    agent = await make(admin, account, retrieval=Retrieval(knowledge_base_id=base.id))
    told = await admin_knowledge.delete(admin, base.id, dry_run=True)
    assert told.needs_force is True
    assert told.goes == ()
    assert [(use.kind, use.names) for use in told.used_by] == [("agents", ("Shop",))]
    await admin_knowledge.delete(admin, base.id, force=True)
    assert (await admin_agents.get(admin, agent)).retrieval is None
    with pytest.raises(Invalid, match=r"^retrieval\.knowledge_base_id: "):
        await admin_agents.restore(admin, agent, 1)


async def test_what_is_shown_and_logged_holds_no_secret(admin: Admin, account: Account) -> None:
    agent = await make(admin, account)
    await admin_mcp_servers.put(
        admin, agent, "shop", ServerBody(url=SHOP.url, headers={"X-Key": "canary-two"})
    )
    await admin_mcp_servers.put(admin, agent, "shop", ServerBody(url=SHOP.url, disabled=True))
    await admin_agents.change(admin, agent, AgentChanges(provider_key="canary-three-is-long"))
    shown = [await admin_agents.get(admin, agent, version) for version in (1, 2, 3, 4)]
    rows = (await admin_audit.page(admin, subject=agent)).items
    assert "canary" not in str((shown, rows))
    assert "canary" not in msgspec.json.encode((shown, rows)).decode()
    assert shown[3].provider_key.last4 == "long"
    assert [row.after.get("secrets_changed") for row in rows] == [["provider_key"], [], ["mcp_headers"], None]
    assert "canary" not in repr((SHOP, ServerBody(url="https://x", headers=HEADERS)))


async def test_changed_server_url_does_not_keep_the_headers(
    admin: Admin, account: Account, pool: Pool
) -> None:
    agent, other = await make(admin, account), "https://other.example/mcp"
    with pytest.raises(Invalid, match=r"^headers: must be given again"):
        await admin_mcp_servers.put(admin, agent, "shop", ServerBody(url=other))
    await admin_mcp_servers.put(admin, agent, "shop", ServerBody(url=other, headers={}))
    (server,) = await AgentServers(pool, SEALER, "http://127.0.0.1:8080").load_servers(account.id, agent, 2)
    assert (server.url, server.headers) == (other, {})


async def test_a_disabled_server_is_offered_to_no_model(admin: Admin, account: Account, pool: Pool) -> None:
    agent = await make(admin, account)
    await admin_mcp_servers.put(admin, agent, "shop", ServerBody(url=SHOP.url, disabled=True))
    offered = AgentServers(pool, SEALER, "http://127.0.0.1:8080")
    assert [server.name for server in await offered.load_servers(account.id, agent, 1)] == ["shop"]
    assert await offered.load_servers(account.id, agent, 2) == ()
    await admin_mcp_servers.put(admin, agent, "shop", ServerBody(url=SHOP.url, disabled=False))
    assert await offered.load_servers(account.id, agent, 3) == (SHOP,)


async def test_recreated_agent_has_no_servers_of_the_old_one(
    admin: Admin, account: Account, pool: Pool
) -> None:
    offered = AgentServers(pool, SEALER, "http://127.0.0.1:8080")
    agent = await make(admin, account)
    assert await offered.load_servers(account.id, agent, 1) == (SHOP,)
    await admin_agents.delete(admin, agent)
    await make(admin, account, id=agent, mcp_servers=())
    assert await offered.load_servers(account.id, agent, 1) == ()


async def test_under_another_secret_key_headers_are_not_lost_unseen(
    admin: Admin, account: Account, pool: Pool
) -> None:
    agent = await make(admin, account)
    other = Admin(pool=pool, sealer=Sealer(b"o" * 32), actor="ada@cli")
    shown = await admin_agents.get(other, agent)
    assert (shown.provider_key.set, shown.provider_key.last4) == (True, None)
    assert shown.mcp_servers[0].header_names is None
    with pytest.raises(Conflict, match="another secret key"):
        await admin_mcp_servers.put(other, agent, "more", ServerBody(url="https://m.example"))
    await admin_agents.change(other, agent, AgentChanges(name="Renamed"))
    assert (await admin_agents.get(admin, agent)).mcp_servers[0].header_names == ("Authorization",)
    await admin_agents.change(other, agent, AgentChanges(mcp_servers=(SHOP,)))
    assert (await admin_agents.get(other, agent)).mcp_servers[0].header_names == ("Authorization",)


async def test_an_agent_takes_only_a_knowledge_base_of_its_account(admin: Admin, account: Account) -> None:
    stranger = await admin_accounts.create(admin, NewAccount(name="Other"))
    base = await admin_knowledge.create(admin, NewKnowledgeBase(account_id=stranger.id, name="Theirs"))
    looks = Retrieval(knowledge_base_id=base.id)
    with pytest.raises(Invalid, match=r"^retrieval\.knowledge_base_id: "):
        await make(admin, account, retrieval=looks)
    agent = await make(admin, account)
    with pytest.raises(Invalid, match=r"^retrieval\.knowledge_base_id: "):
        await admin_agents.change(admin, agent, AgentChanges(retrieval=looks))
    assert (await admin_agents.get(admin, agent)).version == 1


async def test_a_knowledge_base_never_goes_while_an_agent_comes_to_it(admin: Admin, account: Account) -> None:
    for _ in range(8):
        base = await admin_knowledge.create(admin, NewKnowledgeBase(account_id=account.id, name="Policies"))
        made, gone = await asyncio.gather(
            make(admin, account, retrieval=Retrieval(knowledge_base_id=base.id)),
            admin_knowledge.delete(admin, base.id),
            return_exceptions=True,
        )
        outcomes = (isinstance(made, Invalid), isinstance(gone, Conflict))
        assert outcomes in ((True, False), (False, True)), (made, gone)


async def test_an_agent_with_runs_and_conversations_goes_by_force_alone(
    admin: Admin, account: Account, pool: Pool, migrated_database_url: str
) -> None:
    agent, other = await make(admin, account), await make(admin, account)
    at = "2026-11-21T09:30:00.000000Z"
    over, under_way = make_id(), make_id()
    trace = {thread: os.urandom(16).hex() for thread in (over, under_way)}
    async with open_store(migrated_database_url) as opened:
        for thread, its in trace.items():
            started = events.ConversationStarted(trace_id=its, at=at, account_id=account.id)
            asked = events.MessageSaved(
                trace_id=its, at=at, message_id=make_id(), role="user", content="Hi", agent_id=agent
            )
            ended = events.RunCancelled(trace_id=its, at=at, usage=Usage())
            said: list[events.Event] = [started, asked, ended] if thread == over else [started, asked]
            await opened.append(await opened.load(thread), said)
    projections = [threads.PROJECTION, runs_table.PROJECTION]
    await Follower(pool, Log(pool), projections).step()
    told = await admin_agents.delete(admin, agent, dry_run=True)
    assert told.needs_force is True
    assert [use.kind for use in told.goes] == ["versions"]
    running, conversations = told.used_by
    assert (running.kind, running.count) == ("open runs", 1)
    assert running.names == (trace[under_way],)
    assert (conversations.kind, conversations.count) == ("conversations", 2)
    assert set(conversations.names) == {over, under_way}
    with pytest.raises(Conflict, match="has 1 open run and 2 conversations; force") as refused:
        await admin_agents.delete(admin, agent)
    assert refused.value.uses == told.used_by
    assert (await admin_agents.get(admin, agent)).id == agent
    assert (await admin_agents.delete(admin, other)).used_by == ()
    assert (await admin_agents.delete(admin, agent, force=True)).used_by == ()
    with pytest.raises(NotFound):
        await admin_agents.get(admin, agent)


async def test_a_forced_deletion_counts_nothing(
    admin: Admin, account: Account, migrated_database_url: str
) -> None:
    """Counting millions of runs and conversations takes longer than a deletion may."""
    agent = await make(admin, account)
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as owner, owner.transaction():
        await owner.execute("LOCK TABLE conversations, runs IN ACCESS EXCLUSIVE MODE")
        async with asyncio.timeout(5):
            await admin_agents.delete(admin, agent, force=True)
    with pytest.raises(NotFound):
        await admin_agents.get(admin, agent)


async def test_an_agent_that_answers_what_no_list_shows_is_in_use(
    admin: Admin, account: Account, pool: Pool, migrated_database_url: str
) -> None:
    agent, thread = await make(admin, account), make_unlisted_id()
    its, at = os.urandom(16).hex(), "2026-11-21T09:30:00.000000Z"
    said: list[events.Event] = [
        events.ConversationStarted(trace_id=its, at=at, account_id=account.id),
        events.MessageSaved(
            trace_id=its, at=at, message_id=make_id(), role="user", content="Hi", agent_id=agent
        ),
        events.RunCancelled(trace_id=its, at=at, usage=Usage()),
    ]
    async with open_store(migrated_database_url) as opened:
        await opened.append(await opened.load(thread), said)
    await Follower(pool, Log(pool), [threads.PROJECTION, runs_table.PROJECTION]).step()
    (used,) = (await admin_agents.delete(admin, agent, dry_run=True)).used_by
    assert (used.kind, used.count) == ("conversations", 1)
    assert used.names == (thread,)


async def test_a_check_needs_a_bus(admin: Admin, account: Account) -> None:
    with pytest.raises(Unavailable, match="needs NATS"):
        await admin_agents.check(admin, await make(admin, account))


async def test_an_agent_is_saved_only_with_a_base_url_that_may_be_called(
    admin: Admin, account: Account, pool: Pool
) -> None:
    local = "http://127.0.0.1:11434/v1"
    with pytest.raises(Invalid, match="base_url"):
        await make(admin, account, base_url=local)
    agent = await make(admin, account, base_url="https://models.example")
    for url in ("https://169.254.169.254", "https://localhost", "http://models.example", "https://[::"):
        with pytest.raises(Invalid, match="base_url"):
            await admin_agents.change(admin, agent, AgentChanges(base_url=url, provider_key="new"))
    listing = Admin(pool=pool, sealer=SEALER, actor="ada@cli", model_hosts=Guard(("127.0.0.1:*",)))
    moved = await admin_agents.change(listing, agent, AgentChanges(base_url=local, provider_key=None))
    assert (moved.base_url, moved.version) == (local, 2)
    await admin_agents.change(admin, agent, AgentChanges(base_url=None))
    with pytest.raises(Invalid, match="base_url"):
        await admin_agents.restore(admin, agent, 2)


async def test_tool_server_needs_an_allowed_address(admin: Admin, account: Account) -> None:
    local = msgspec.structs.replace(SHOP, url="http://127.0.0.1:9000/mcp")
    reason = "may not be called: .*AGENTCHAT_MCP_ALLOW lists"
    with pytest.raises(Invalid, match=rf"mcp_servers\[0\].url: {reason}"):
        await make(admin, account, mcp_servers=(local,))
    agent = await make(admin, account)
    with pytest.raises(Invalid, match=rf"url: {reason}"):
        await admin_mcp_servers.put(admin, agent, "shop", ServerBody(url=local.url, headers={}))
    with pytest.raises(Invalid, match=rf"mcp_servers\[0\].url: {reason}"):
        await admin_agents.change(admin, agent, AgentChanges(mcp_servers=(local,)))
    listing = msgspec.structs.replace(admin, tool_hosts=Guard(("127.0.0.1:*",)))
    changed = await admin_mcp_servers.put(listing, agent, "shop", ServerBody(url=local.url, headers={}))
    assert changed.url == local.url


async def test_names_are_resolved_when_an_address_is_saved(admin: Admin, account: Account) -> None:
    async def resolve_inside(host: str, port: int, account_id: str) -> list[str]:
        return ["10.0.0.7"]

    agent = await make(admin, account, base_url="https://models.example")
    inside = msgspec.structs.replace(
        admin, tool_hosts=Guard((), resolve_inside), model_hosts=Guard((), resolve_inside)
    )
    with pytest.raises(Invalid, match=r"^url: may not be called: s\.example is at an address that"):
        await admin_mcp_servers.put(inside, agent, "s", ServerBody(url="https://s.example"))
    with pytest.raises(Invalid, match=r"mcp_servers\[0\].url: may not be called"):
        await admin_agents.change(inside, agent, AgentChanges(mcp_servers=(SHOP,)))
    with pytest.raises(Invalid, match="base_url: may not be called"):
        await admin_agents.change(
            inside, agent, AgentChanges(base_url="https://m.example", provider_key="new")
        )
    with pytest.raises(Invalid, match="may not be called"):
        await admin_agents.restore(inside, agent, 1)


async def test_a_key_is_given_again_where_it_would_go_elsewhere(admin: Admin, account: Account) -> None:
    agent = await make(admin, account)
    for elsewhere in (AgentChanges(base_url="https://models.example"), AgentChanges(provider="openai")):
        with pytest.raises(Invalid, match=r"^provider_key: must be given again"):
            await admin_agents.change(admin, agent, elsewhere)
    moved = await admin_agents.change(
        admin, agent, AgentChanges(base_url="https://models.example", provider_key="sk-other-0123456789ab")
    )
    assert (moved.provider, moved.base_url) == ("anthropic", "https://models.example")
    assert moved.provider_key.last4 == "89ab"
    with pytest.raises(Invalid, match="provider"):
        await admin_agents.change(admin, agent, AgentChanges(provider="nobody"))
