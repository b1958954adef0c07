import asyncio
import contextlib
from datetime import UTC, datetime

import psycopg
import pytest

from agentchat.administration import Admin, admin_accounts, admin_keys, admin_plans
from agentchat.administration.admin_values import AccountChanges, NewAccount, PlanChanges
from agentchat.administration.agent_versions import change_agent, create_agent
from agentchat.administration.key_values import KeyChanges, KeyRotation, NewKey
from agentchat.contracts.admin_errors import Conflict, NotFound
from agentchat.directory.agent_config import Retrieval
from agentchat.directory.agent_validation import AgentChanges, AgentDraft
from agentchat.directory.api_keys import Callers, KeyUseRecorder
from agentchat.directory.migrations import migrate
from agentchat.directory.plans import Plan
from agentchat.directory.secret_encryption import Sealer
from agentchat.runtime.postgres import Connection, Pool
from tests.administrator import plan_with, put_plan, resolve

SEALER = Sealer(b"k" * 32)
DRAFT = AgentDraft(name="Shop", model="claude-x")


async def test_key_resolves_to_its_account_plan_and_agent(
    pool: Pool, conn: Connection, admin: Admin, account: str
) -> None:
    key = await admin_keys.create(admin, account, NewKey(name="server"))
    draft = AgentDraft(name="Shop", model="claude-x", retrieval=Retrieval(knowledge_base_id="kb"))
    agent = await create_agent(conn, SEALER, account, draft, actor="test")
    found = await resolve(pool, key.key, agent.upper())
    assert found is not None
    caller, agent_id = found
    assert (caller.account_id, caller.key_id) == (account, key.id)
    assert caller.plan == Plan(
        name="Pro",
        requests_per_minute=600,
        concurrent_runs=20,
        tokens_per_month=50_000_000,
        form2_streaming=True,
        max_message_bytes=262_144,
        storage_bytes=100 * 2**30,
    )
    assert agent_id == agent


async def test_now_is_the_clock_of_postgres_at_each_look_up(pool: Pool, admin: Admin, account: str) -> None:
    key = await admin_keys.create(admin, account, NewKey())
    times = []
    for _ in range(2):
        found = await resolve(pool, key.key, None)
        assert found is not None
        times.append(found[0].now)
    assert times[0] < times[1]
    assert times[0].endswith("Z")
    assert len(times[0]) == len("2026-11-21T10:14:00.940958Z")
    assert abs((datetime.fromisoformat(times[0]) - datetime.now(UTC)).total_seconds()) < 60


async def test_unknown_foreign_disabled_and_nonsense_agents_look_the_same(
    pool: Pool, conn: Connection, admin: Admin, account: str
) -> None:
    key = await admin_keys.create(admin, account, NewKey())
    other = (await admin_accounts.create(admin, NewAccount(name="Other", plan="Pro"))).id
    foreign = await create_agent(conn, SEALER, other, DRAFT, actor="test")
    disabled = await create_agent(conn, SEALER, account, DRAFT, actor="test")
    await change_agent(conn, SEALER, disabled, AgentChanges(disabled=True), actor="test")
    for agent in (
        foreign,
        disabled,
        "01a1fd99-3de2-7f7c-a215-6db343a57d80",
        "shop",
        "",
        "\x00",
        "\ud800",
        None,
    ):
        found = await resolve(pool, key.key, agent)
        assert found is not None
        assert found[1] is None


async def test_all_invalid_keys_look_the_same(
    pool: Pool, conn: Connection, admin: Admin, account: str
) -> None:
    revoked = await admin_keys.create(admin, account, NewKey())
    await admin_keys.revoke(admin, revoked.id)
    shut = await admin_accounts.create(admin, NewAccount(name="Shut", plan="Pro"))
    shut_key = await admin_keys.create(admin, shut.id, NewKey())
    await admin_accounts.change(admin, shut.id, AccountChanges(disabled=True))
    gone = await admin_accounts.create(admin, NewAccount(name="Gone", plan="Pro"))
    gone_key = await admin_keys.create(admin, gone.id, NewKey())
    await conn.execute("DELETE FROM accounts WHERE account_id = %s", [gone.id])
    disabled = await admin_keys.create(admin, account, NewKey())
    await admin_keys.change(admin, disabled.id, KeyChanges(disabled=True))
    unknown = ("sk-ac-" + "x" * 43, "", "\x00", "\ud800", "' OR true --")
    for key in (revoked.key, disabled.key, shut_key.key, gone_key.key, *unknown):
        assert await resolve(pool, key, None) is None
    await admin_accounts.change(admin, shut.id, AccountChanges(disabled=False))
    assert await resolve(pool, shut_key.key, None) is not None
    await admin_keys.change(admin, disabled.id, KeyChanges(disabled=False))
    assert await resolve(pool, disabled.key, None) is not None


async def test_rotated_key_stays_disabled(pool: Pool, admin: Admin, account: str) -> None:
    key = await admin_keys.create(admin, account, NewKey())
    await admin_keys.change(admin, key.id, KeyChanges(disabled=True))
    fresh = await admin_keys.rotate(admin, key.id, KeyRotation())
    assert await resolve(pool, fresh.key, None) is None
    await admin_keys.change(admin, key.id, KeyChanges(disabled=False))
    assert await resolve(pool, fresh.key, None) is not None


async def test_no_table_holds_a_key(migrated_database_url: str, admin: Admin, account: str) -> None:
    key = await admin_keys.create(admin, account, NewKey())
    fresh = await admin_keys.rotate(admin, key.id, KeyRotation())
    with psycopg.connect(migrated_database_url) as owner:
        for (table,) in owner.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        ).fetchall():
            text = str(owner.execute(f'SELECT t::text FROM "{table}" t').fetchall())
            assert key.key not in text, table
            assert fresh.key not in text, table
    assert fresh.key not in repr(fresh)


async def test_changed_plan_applies_at_the_next_look_up(pool: Pool, admin: Admin, account: str) -> None:
    key = await admin_keys.create(admin, account, NewKey())
    await put_plan(pool, plan_with("Small", requests_per_minute=1, form2_streaming=False))
    await admin_accounts.change(admin, account, AccountChanges(plan="Small"))
    numbers = PlanChanges(requests_per_minute=None, concurrent_runs=3)
    changed = await admin_plans.change(admin, "Small", numbers)
    found = await resolve(pool, key.key, None)
    assert found is not None
    assert found[0].plan == changed
    assert changed.requests_per_minute is None
    assert changed.concurrent_runs == 3


async def test_key_belongs_to_exactly_one_account(admin: Admin, account: str) -> None:
    with pytest.raises(NotFound, match="no such account"):
        await admin_keys.create(admin, "nobody", NewKey())
    key = await admin_keys.create(admin, account, NewKey())
    with pytest.raises(Conflict):
        await admin_keys.add(admin, account, key.key, name="")


async def test_no_service_removes_audit_rows(conn: Connection) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await conn.execute("DELETE FROM audit_log")


async def test_last_use_is_written_once_a_minute(
    pool: Pool, conn: Connection, admin: Admin, account: str
) -> None:
    key = await admin_keys.create(admin, account, NewKey())

    async def read_last_used() -> datetime | None:
        cursor = await conn.execute("SELECT last_used_at FROM api_keys WHERE key_id = %s", [key.id])
        row = await cursor.fetchone()
        assert row is not None
        moment: datetime | None = row[0]
        return moment

    async with (
        KeyUseRecorder(pool, every=3600) as noted,
        contextlib.aclosing(Callers(pool, noted)) as callers,
    ):
        assert await callers.resolve(key.key, None) is not None
        assert await read_last_used() is None
        await noted.write()
        first = await read_last_used()
        assert first is not None
        await callers.resolve(key.key, None)
    assert await read_last_used() == first


async def test_migrating_again_keeps_what_was_changed(
    migrated_database_url: str, conn: Connection, admin: Admin
) -> None:
    await admin_plans.change(admin, "Starter", PlanChanges(requests_per_minute=61))
    await asyncio.gather(*(migrate(migrated_database_url) for _ in range(3)))
    cursor = await conn.execute(
        "SELECT name, requests_per_minute FROM plans WHERE name <> 'Small' ORDER BY 2"
    )
    assert await cursor.fetchall() == [
        ("Starter", 61),
        ("Pro", 600),
        ("Enterprise", 6000),
        ("Unlimited", None),
    ]
