"""Rotation of the secret key: every sealed value again, whoever writes meanwhile."""

import asyncio
import base64
import os
from typing import Any

import pytest

from agentchat.administration import Admin, admin_authorizations
from agentchat.administration.admin_authorizations import AuthorizationBody
from agentchat.administration.agent_versions import change_agent, create_agent
from agentchat.administration.secret_key_rotation import reseal
from agentchat.contracts.webhooks import IssuedEndpoint, NewEndpoint
from agentchat.directory.agent_config import (
    Fallback,
    McpServer,
    load_agent,
    load_provider_key,
    unseal_provider_key,
    use_fallback,
)
from agentchat.directory.agent_validation import AgentChanges, AgentDraft
from agentchat.directory.run_secrets import load_run_secrets, save_run_secrets
from agentchat.directory.secret_encryption import Sealer, build_sealer, refuse_unknown_key
from agentchat.directory.tool_authorizations import (
    OAuthClient,
    PendingLink,
    ToolServerKey,
    find,
    keep_link,
    take_link,
)
from agentchat.runtime.postgres import Connection, Pool
from agentchat.runtime.settings import SettingsError
from agentchat.webhooks import endpoints
from agentchat.webhooks.endpoints import build_seal_owner
from tests.blocking import until_blocked_by

OLD, NEW = b"o" * 32, b"n" * 32
BEFORE = Sealer(OLD)
BOTH = Sealer(NEW, previous=[OLD])
AFTER = Sealer(NEW)


@pytest.fixture(autouse=True)
async def no_other_agents(conn: Connection) -> None:
    await conn.execute("DELETE FROM agents")


async def _make(conn: Connection, account: str, key: str = "sk-ant-one", sealer: Sealer = BEFORE) -> str:
    servers = (McpServer(name="shop", url="https://shop.example/mcp", headers={"Authorization": key}),)
    draft = AgentDraft(name="Agent", model="m", mcp_servers=servers, provider_key=key)
    return await create_agent(conn, sealer, account, draft, actor="test")


async def _change(conn: Connection, account: str, agent: str, sealer: Sealer, **changes: Any) -> int:
    return await change_agent(conn, sealer, agent, AgentChanges(**changes), actor="test")


async def _is_opened_by_new_key(pool: Pool, account: str, agent: str, version: int, key: str) -> bool:
    """With the new key alone."""
    config = await load_agent(pool, account, agent, version, AFTER)
    assert config is not None
    opened = await load_provider_key(pool, AFTER, account, agent, version)
    return opened == key and config.mcp_servers[0].headers == {"Authorization": key}


async def test_every_version_of_every_agent_opens_under_the_new_key_alone(
    pool: Pool, conn: Connection, account: str
) -> None:
    agents = [await _make(conn, account, f"sk-ant-{number}") for number in range(5)]
    await _change(conn, account, agents[0], BEFORE, name="Other")
    bare = await create_agent(conn, BEFORE, account, AgentDraft(name="Bare", model="m"), actor="test")
    done = await reseal(pool, BOTH, actor="test")
    assert (done.rows, done.values, done.resealed, done.unopened) == (7, 12, 12, [])
    assert await _is_opened_by_new_key(pool, account, agents[0], 1, "sk-ant-0")
    assert await _is_opened_by_new_key(pool, account, agents[0], 2, "sk-ant-0")
    assert all(
        [
            await _is_opened_by_new_key(pool, account, agent, 1, f"sk-ant-{n}")
            for n, agent in enumerate(agents)
        ]
    )
    assert await load_provider_key(pool, AFTER, account, bare, 1) is None


async def test_keys_of_fall_backs_are_sealed_again(pool: Pool, conn: Connection, account: str) -> None:
    fallbacks = (Fallback(provider="openai", model="gpt", provider_key="sk-two"),)
    draft = AgentDraft(name="Agent", model="m", fallbacks=fallbacks)
    agent = await create_agent(conn, BEFORE, account, draft, actor="test")
    assert (await reseal(pool, BOTH, actor="test")).resealed == 1
    config = await load_agent(pool, account, agent)
    assert config is not None
    assert unseal_provider_key(AFTER, use_fallback(config, 1)) == "sk-two"


async def test_second_reseal_changes_nothing_and_adds_no_audit_row(
    pool: Pool, conn: Connection, account: str
) -> None:
    await _make(conn, account)
    rows = "SELECT subject, after::text FROM audit_log WHERE action = 'reseal' ORDER BY id"
    before = await (await conn.execute(rows)).fetchall()
    await reseal(pool, BOTH, actor="test")
    after = await (await conn.execute(rows)).fetchall()
    assert after[len(before) :] == [(BOTH.key_id, '{"table":"agent_versions","values":2}')]
    again = await reseal(pool, BOTH, actor="test")
    assert again.values == 2
    assert again.resealed == 0
    assert await (await conn.execute(rows)).fetchall() == after


async def test_a_dry_run_counts_and_changes_nothing(pool: Pool, conn: Connection, account: str) -> None:
    agent = await _make(conn, account)
    done = await reseal(pool, BOTH, actor="test", dry_run=True)
    assert done.values == 2
    assert done.resealed == 2
    assert await load_provider_key(pool, BEFORE, account, agent, 1) == "sk-ant-one"


async def test_unopened_values_are_named_and_the_rest_is_resealed(
    pool: Pool, conn: Connection, account: str
) -> None:
    lost = await _make(conn, account, "sk-ant-lost", Sealer(b"x" * 32))
    good = await _make(conn, account)
    swapped = await _make(conn, account)
    await conn.execute(
        "UPDATE agent_versions SET mcp_headers = other.mcp_headers FROM agent_versions AS other "
        "WHERE other.agent_id = %s AND agent_versions.agent_id = %s",
        [good, swapped],
    )
    done = await reseal(pool, BOTH, actor="test")
    assert {(*found.key, found.secret) for found in done.unopened} == {
        (lost, 1, "provider_key"),
        (lost, 1, "mcp_headers"),
        (swapped, 1, "mcp_headers"),
    }
    assert {found.account_id for found in done.unopened} == {account}
    assert "sk-ant" not in repr(done)
    assert done.resealed == 3
    assert await _is_opened_by_new_key(pool, account, good, 1, "sk-ant-one")
    assert await load_provider_key(pool, Sealer(b"x" * 32), account, lost, 1) == "sk-ant-lost"


async def test_reseal_waits_for_a_change_under_way(pool: Pool, conn: Connection, account: str) -> None:
    """A change copies what the version before it had, sealed as it was."""
    agent = await _make(conn, account)
    async with conn.transaction():
        await _change(conn, account, agent, BEFORE, name="Other")
        sealing = asyncio.create_task(reseal(pool, BOTH, actor="test"))
        await until_blocked_by(conn)
    done = await sealing
    assert done.values == 4
    assert done.resealed == 4
    assert await _is_opened_by_new_key(pool, account, agent, 2, "sk-ant-one")


async def test_concurrent_changes_leave_nothing_under_the_old_key(
    pool: Pool, conn: Connection, account: str
) -> None:
    agents = [await _make(conn, account) for _ in range(5)]
    sealing = asyncio.create_task(reseal(pool, BOTH, actor="test"))
    versions = {}
    for number in range(10):
        for agent in agents:
            versions[agent] = await _change(conn, account, agent, BOTH, name=f"Agent {number}")
    done = await sealing
    assert done.unopened == []
    for agent, version in versions.items():
        assert all(
            [await _is_opened_by_new_key(pool, account, agent, n + 1, "sk-ant-one") for n in range(version)]
        )


async def test_the_tokens_of_tool_servers_open_under_the_new_key_alone(
    pool: Pool, conn: Connection, account: str
) -> None:
    agent = await _make(conn, account)
    admin = Admin(pool=pool, sealer=BEFORE, actor="test")
    body = AuthorizationBody(
        grant="client_credentials", issuer="https://auth.example", client_id="c", client_secret="s"
    )
    await admin_authorizations.put(admin, agent, "shop", body)
    place = ToolServerKey(account, agent, "shop")
    present = await find(conn, BEFORE, place)
    assert present is not None
    link = PendingLink(
        verifier="v",
        redirect_uri="https://chat.example",
        client=OAuthClient(id="c", secret="s"),
        endpoint="https://auth.example/token",
        resource="https://shop.example/mcp",
        issuer="https://auth.example",
        names_issuer=False,
        scope=None,
    )
    await keep_link(conn, BEFORE, place, present.id, "state", link, 600)
    assert (await reseal(pool, BOTH, actor="test")).resealed == 4
    assert await find(conn, AFTER, place) == present
    assert await take_link(conn, AFTER, "state") == (place, present.id, link)


async def test_a_key_that_opens_nothing_in_the_database_is_refused(
    pool: Pool, conn: Connection, account: str
) -> None:
    await refuse_unknown_key(pool, Sealer(b"x" * 32))  # nothing is sealed yet
    await create_agent(conn, BEFORE, account, AgentDraft(name="Bare", model="m"), actor="test")
    await refuse_unknown_key(pool, Sealer(b"x" * 32))
    agent = await _make(conn, account)
    with pytest.raises(SettingsError, match="AGENTCHAT_SECRET_KEY opens none of the 2 secrets"):
        await refuse_unknown_key(pool, Sealer(b"x" * 32))
    await refuse_unknown_key(pool, BOTH)
    await _change(conn, account, agent, Sealer(b"x" * 32), provider_key="sk-ant-new")
    await refuse_unknown_key(pool, Sealer(b"x" * 32))  # one was entered again: the rest can follow


def test_error_names_the_setting_of_a_bad_key_without_its_value() -> None:
    good = base64.b64encode(os.urandom(32)).decode()
    for current, previous, name in (
        ("hunter2", (), "AGENTCHAT_SECRET_KEY "),
        (good, (good, "hunter2"), "AGENTCHAT_SECRET_KEY_PREVIOUS "),
    ):
        with pytest.raises(SettingsError, match=name) as caught:
            build_sealer(current, previous)
        assert "hunter2" not in str(caught.value)
    assert build_sealer(good, (good,)).key_id == Sealer.from_setting(good).key_id


async def test_webhook_secrets_are_resealed_too(pool: Pool, conn: Connection, account: str) -> None:
    made = [await _make_endpoint(pool, account, BEFORE) for _ in range(3)]
    await endpoints.rotate_secret(pool, BEFORE, account, made[0].id)
    lost = await _make_endpoint(pool, account, Sealer(b"x" * 32))
    done = await reseal(pool, BOTH, actor="test")
    assert (done.rows, done.values, done.resealed) == (4, 5, 4)
    assert [each.key for each in done.unopened] == [(lost.id,)]
    rows = await conn.execute(
        "SELECT endpoint_id, secret, previous_secret FROM webhook_endpoints WHERE account_id = %s", [account]
    )
    for endpoint_id, *sealed in await rows.fetchall():
        if endpoint_id != lost.id:
            owner = build_seal_owner(account, endpoint_id)
            opened = [AFTER.open(value, owner=owner) for value in sealed if value is not None]
            assert all(secret.startswith("whsec_") for secret in opened)


async def test_secrets_of_a_run_are_resealed_too(pool: Pool, account: str) -> None:
    await save_run_secrets(pool, BEFORE, account, "trace", {"token": "of Ada"})
    assert (await reseal(pool, BOTH, actor="test")).resealed == 1
    assert await load_run_secrets(pool, AFTER, account, "trace") == {"token": "of Ada"}


async def _make_endpoint(pool: Pool, account: str, sealer: Sealer) -> IssuedEndpoint:
    new = NewEndpoint(url="https://hooks.example.com/", events=("run.completed",))
    return await endpoints.create_endpoint(pool, sealer, account, new)
