"""The demo's data: made once, found again, fitted to the stack that starts."""

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from agentchat.administration import Admin, admin_keys
from agentchat.administration.agent_versions import change_agent
from agentchat.administration.key_values import KeyRotation
from agentchat.directory.agent_config import AgentConfig, load_agent, load_provider_key
from agentchat.directory.agent_validation import AgentChanges
from agentchat.directory.secret_encryption import Sealer
from agentchat.ops import demo
from agentchat.ops.demo import Demo
from agentchat.ops.folder_secrets import Secrets
from agentchat.ops.seed import seed
from agentchat.runtime.postgres import acquire_connection, open_pool
from tests.administrator import administrator, resolve

_SECRETS = Secrets()
_SEALER = Sealer.from_setting(_SECRETS.secret_key)
_DEMO = Demo(
    api_key=_SECRETS.api_key,
    starter_api_key=_SECRETS.starter_api_key,
    load_api_key=_SECRETS.load_api_key,
    mcp_url="http://127.0.0.1:1000/api/mcp",
)


async def _agent(
    database_url: str, account_id: str = demo.ACCOUNT_ID, agent_id: str = demo.AGENT_ID
) -> AgentConfig:
    async with open_pool(database_url) as pool:
        agent = await load_agent(pool, account_id, agent_id, sealer=_SEALER)
    assert agent is not None
    return agent


async def test_every_key_leads_to_its_account_and_agent(migrated_database_url: str) -> None:
    await seed(migrated_database_url, _SECRETS.secret_key, _DEMO)
    wanted = [
        (_DEMO.api_key, demo.AGENT_ID, "Pro"),
        (_DEMO.starter_api_key, demo.STARTER_AGENT_ID, "Starter"),
        (_DEMO.load_api_key, demo.LOAD_AGENT_ID, "Unlimited"),
    ]
    async with open_pool(migrated_database_url) as pool:
        for key, agent_id, plan in wanted:
            found = await resolve(pool, key, agent_id)
            assert found is not None
            caller, found_agent = found
            assert caller.plan.name == plan
            assert found_agent == agent_id
    load = await _agent(migrated_database_url, demo.LOAD_ACCOUNT_ID, demo.LOAD_AGENT_ID)
    assert load.mcp_servers == ()


async def test_a_second_start_changes_nothing(migrated_database_url: str) -> None:
    await seed(migrated_database_url, _SECRETS.secret_key, _DEMO)
    before = await _agent(migrated_database_url)
    await seed(migrated_database_url, _SECRETS.secret_key, _DEMO)
    assert await _agent(migrated_database_url) == before


async def test_seeded_agent_keeps_manual_changes(
    migrated_database_url: str,
) -> None:
    await seed(migrated_database_url, _SECRETS.secret_key, _DEMO)
    by_hand = AgentChanges(system_prompt="Be brief.", model="demo-shop-1?delay_ms=5")
    async with open_pool(migrated_database_url) as pool, acquire_connection(pool) as conn:
        await change_agent(conn, _SEALER, demo.AGENT_ID, by_hand, actor="test")
    moved = msgspec.structs.replace(_DEMO, mcp_url="http://127.0.0.1:2000/api/mcp")
    await seed(migrated_database_url, _SECRETS.secret_key, moved)
    agent = await _agent(migrated_database_url)
    assert [server.url for server in agent.mcp_servers] == [moved.mcp_url]
    assert agent.system_prompt == "Be brief."
    assert agent.model == "demo-shop-1?delay_ms=5"


async def test_seeded_agents_use_the_provider_whose_key_is_set(
    migrated_database_url: str,
) -> None:
    async def models() -> list[tuple[str, str]]:
        agents = [
            await _agent(migrated_database_url, agent_id=each)
            for each in (demo.AGENT_ID, demo.OPENAI_AGENT_ID)
        ]
        return [(agent.provider, agent.model) for agent in agents]

    await seed(migrated_database_url, _SECRETS.secret_key, _DEMO)
    with_keys = msgspec.structs.replace(_DEMO, anthropic_key="sk-ant-a-key", openai_key="sk-a-key")
    await seed(migrated_database_url, _SECRETS.secret_key, with_keys)
    assert await models() == [("anthropic", demo.ANTHROPIC_MODEL), ("openai", demo.OPENAI_MODEL)]
    version = (await _agent(migrated_database_url)).version
    async with open_pool(migrated_database_url) as pool:
        key = await load_provider_key(pool, _SEALER, demo.ACCOUNT_ID, demo.AGENT_ID, version)
    assert key == "sk-ant-a-key"
    await seed(migrated_database_url, _SECRETS.secret_key, _DEMO)
    assert await models() == [("anthropic", demo.OFFLINE_MODEL), ("openai", demo.OFFLINE_MODEL)]


async def test_another_secret_key_seals_the_provider_key_again(migrated_database_url: str) -> None:
    await seed(migrated_database_url, _SECRETS.secret_key, _DEMO)
    another = Secrets()
    await seed(migrated_database_url, another.secret_key, _DEMO)
    sealer = Sealer.from_setting(another.secret_key)
    async with open_pool(migrated_database_url) as pool:
        agent = await load_agent(pool, demo.ACCOUNT_ID, demo.AGENT_ID)
        assert agent is not None
        assert await load_provider_key(pool, sealer, demo.ACCOUNT_ID, demo.AGENT_ID, agent.version)
    await seed(migrated_database_url, _SECRETS.secret_key, _DEMO)


async def _rotate(admin: Admin, key_id: str) -> object:
    return await admin_keys.rotate(admin, key_id, KeyRotation())


@pytest.mark.parametrize("change", [_rotate, admin_keys.revoke])
async def test_a_rotated_or_revoked_demo_key_does_not_come_back(
    migrated_database_url: str, change: Callable[[Admin, str], Awaitable[object]]
) -> None:
    once = msgspec.structs.replace(_DEMO, starter_api_key=Secrets().starter_api_key)
    await seed(migrated_database_url, _SECRETS.secret_key, once)
    async with open_pool(migrated_database_url) as pool:
        found = await resolve(pool, once.starter_api_key, None)
        assert found is not None
        await change(administrator(pool), found[0].key_id)
        await seed(migrated_database_url, _SECRETS.secret_key, once)
        assert await resolve(pool, once.starter_api_key, None) is None


async def test_with_the_previous_secret_key_at_hand_what_was_sealed_stays(migrated_database_url: str) -> None:
    await seed(migrated_database_url, _SECRETS.secret_key, _DEMO)
    before = await _agent(migrated_database_url)
    await seed(migrated_database_url, Secrets().secret_key, _DEMO, [_SECRETS.secret_key])
    assert await _agent(migrated_database_url) == before
