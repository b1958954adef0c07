import psycopg
import pytest

from agentchat.administration import Admin, admin_accounts
from agentchat.administration.admin_values import NewAccount
from agentchat.administration.agent_versions import change_agent, create_agent
from agentchat.contracts.admin_errors import Conflict, Invalid, NotFound
from agentchat.directory.agent_config import McpServer, load_agent, load_provider_key
from agentchat.directory.agent_validation import AgentChanges, AgentDraft
from agentchat.directory.errors import SealBroken
from agentchat.directory.secret_encryption import Sealer
from agentchat.runtime.postgres import Connection, Pool

SEALER = Sealer(b"k" * 32)
SERVER = McpServer(
    name="shop", url="https://tools.example/mcp", headers={"Authorization": "Bearer canary-header"}
)
DRAFT = AgentDraft(
    name="Shop",
    model="claude-x",
    system_prompt="Be brief.",
    parameters={"max_tokens": 900},
    output_type="json",
    output_schema={"type": "object", "properties": {"z": {}, "a": {}}},
    mcp_servers=(SERVER,),
    provider_key="canary-provider-key",
)


async def test_an_agent_is_read_back_as_it_was_made(pool: Pool, conn: Connection, account: str) -> None:
    agent = await create_agent(conn, SEALER, account, DRAFT, actor="test")
    config = await load_agent(pool, account, agent, sealer=SEALER)
    assert config is not None
    assert (config.agent_id, config.account_id, config.version, config.name) == (agent, account, 1, "Shop")
    assert (config.parameters, config.mcp_servers) == ({"max_tokens": 900}, (SERVER,))
    assert config.output_schema is not None
    assert list(config.output_schema["properties"]) == ["z", "a"]
    assert (config.max_tool_rounds, config.on_interruption) == (8, "continue")
    sealed = await load_agent(pool, account, agent)
    assert sealed is not None
    assert sealed.mcp_servers[0].headers == {}
    assert await load_provider_key(pool, SEALER, account, agent, 1) == "canary-provider-key"


async def test_a_change_makes_a_version_and_the_old_one_stays(
    pool: Pool, conn: Connection, account: str
) -> None:
    agent = await create_agent(conn, SEALER, account, DRAFT, actor="test")
    changes = AgentChanges(system_prompt="Be long.", output_type="text", output_schema=None)
    assert await change_agent(conn, SEALER, agent, changes, actor="test") == 2
    old = await load_agent(pool, account, agent, 1, sealer=SEALER)
    new = await load_agent(pool, account, agent, sealer=SEALER)
    assert old is not None
    assert new is not None
    assert (old.version, old.system_prompt, old.output_type) == (1, "Be brief.", "json")
    assert (new.version, new.system_prompt, new.output_type) == (2, "Be long.", "text")
    assert new.mcp_servers == (SERVER,)
    assert await load_provider_key(pool, SEALER, account, agent, 2) == "canary-provider-key"


async def test_secrets_can_be_replaced_and_taken_away(pool: Pool, conn: Connection, account: str) -> None:
    agent = await create_agent(conn, SEALER, account, DRAFT, actor="test")
    bare = McpServer(name="shop", url="https://tools.example/mcp")
    changes = AgentChanges(provider_key=None, mcp_servers=(bare,))
    version = await change_agent(conn, SEALER, agent, changes, actor="test")
    config = await load_agent(pool, account, agent, sealer=SEALER)
    assert config is not None
    assert config.mcp_servers == (bare,)
    assert await load_provider_key(pool, SEALER, account, agent, version) is None
    assert await load_provider_key(pool, SEALER, account, agent, 1) == "canary-provider-key"


async def test_a_bad_change_makes_no_version(pool: Pool, conn: Connection, account: str) -> None:
    agent = await create_agent(conn, SEALER, account, DRAFT, actor="test")
    with pytest.raises(Invalid, match="output_schema"):
        await change_agent(conn, SEALER, agent, AgentChanges(output_type="text"), actor="test")
    assert await load_agent(pool, account, agent, 2) is None


async def test_another_accounts_agent_is_not_found(
    pool: Pool, conn: Connection, admin: Admin, account: str
) -> None:
    agent = await create_agent(conn, SEALER, account, DRAFT, actor="test")
    other = (await admin_accounts.create(admin, NewAccount(name="Other", plan="Pro"))).id
    assert await load_agent(pool, other, agent) is None
    assert await load_agent(pool, other, agent, 1) is None
    assert await load_provider_key(pool, SEALER, other, agent, 1) is None


async def test_disabled_agent_keeps_the_versions_of_its_runs(
    pool: Pool, conn: Connection, account: str
) -> None:
    agent = await create_agent(conn, SEALER, account, DRAFT, actor="test")
    await change_agent(conn, SEALER, agent, AgentChanges(disabled=True), actor="test")
    assert await load_agent(pool, account, agent) is None
    assert await load_agent(pool, account, agent, 1) is not None
    await change_agent(conn, SEALER, agent, AgentChanges(disabled=False), actor="test")
    assert await load_agent(pool, account, agent) is not None


async def test_an_agent_needs_its_account_and_an_id_of_its_own(conn: Connection, account: str) -> None:
    with pytest.raises(NotFound, match="no such account"):
        await create_agent(conn, SEALER, "nobody", DRAFT, actor="test")
    agent = await create_agent(conn, SEALER, account, DRAFT, actor="test")
    with pytest.raises(Conflict):
        await create_agent(conn, SEALER, account, DRAFT, actor="test", agent_id=agent)


async def test_sealed_bytes_copied_to_another_agent_do_not_open(
    pool: Pool, conn: Connection, account: str
) -> None:
    mine = await create_agent(conn, SEALER, account, DRAFT, actor="test")
    theirs = await create_agent(conn, SEALER, account, DRAFT, actor="test")
    await conn.execute(
        "UPDATE agent_versions SET provider_key = other.provider_key, mcp_headers = other.mcp_headers "
        "FROM agent_versions other WHERE agent_versions.agent_id = %s AND other.agent_id = %s",
        [mine, theirs],
    )
    with pytest.raises(SealBroken):
        await load_provider_key(pool, SEALER, account, mine, 1)
    with pytest.raises(SealBroken):
        await load_agent(pool, account, mine, sealer=SEALER)


async def test_no_table_holds_a_secret_in_the_open(
    migrated_database_url: str, conn: Connection, account: str
) -> None:
    agent = await create_agent(conn, SEALER, account, DRAFT, actor="test")
    changes = AgentChanges(name="Shop 2", provider_key="canary-second-key")
    await change_agent(conn, SEALER, agent, changes, actor="test")
    with psycopg.connect(migrated_database_url) as owner:
        for (table,) in owner.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        ).fetchall():
            rows = owner.execute(f'SELECT t::text FROM "{table}" t').fetchall()
            assert not [row for row in rows if "canary" in str(row)], table
            hexed = b"canary".hex()
            assert not [row for row in rows if hexed in str(row)], table


async def test_a_version_cannot_be_changed_or_removed_by_a_service(conn: Connection, account: str) -> None:
    agent = await create_agent(conn, SEALER, account, DRAFT, actor="test")
    for statement in (
        "UPDATE agent_versions SET config = '{}' WHERE agent_id = %s",
        "DELETE FROM agent_versions WHERE agent_id = %s",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await conn.execute(statement, [agent])
