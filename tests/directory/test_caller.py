import asyncio
from datetime import UTC, datetime

import psycopg
import pytest

from directory.administration import (
    change_account,
    change_plan,
    create_account,
    create_agent,
    create_key,
    put_plan,
    revoke_key,
    rotate_key,
    set_account_disabled,
    set_agent_disabled,
    set_key_disabled,
)
from directory.agent_draft import AgentDraft
from directory.agents import Retrieval
from directory.caller import resolve
from directory.errors import Conflict, Invalid, NotFound
from directory.last_used import LastUsed
from directory.migrations import migrate
from directory.plans import Plan
from directory.secrets import Sealer
from runtime.postgres import Connection, Pool, open_pool

SEALER = Sealer(b"k" * 32)
DRAFT = AgentDraft(name="Shop", model="claude-x")


@pytest.mark.requirement("AUTH-KEY", "DIRECTORY")
async def test_a_key_leads_to_its_account_plan_and_agent(pool: Pool, conn: Connection, account: str) -> None:
    key = await create_key(conn, account, actor="test", name="server")
    draft = AgentDraft(name="Shop", model="claude-x", retrieval=Retrieval(knowledge_base_id="kb"))
    agent = await create_agent(conn, SEALER, account, draft, actor="test")
    found = await resolve(pool, key.key, agent)
    assert found is not None
    caller, summary = found
    assert (caller.account_id, caller.key_id) == (account, key.key_id)
    assert caller.plan == Plan(
        name="Pro",
        requests_per_minute=600,
        concurrent_runs=20,
        tokens_per_month=50_000_000,
        form2_streaming=True,
        max_message_bytes=262_144,
    )
    assert summary is not None
    assert (summary.agent_id, summary.version, summary.name, summary.model) == (agent, 1, "Shop", "claude-x")
    assert (summary.output_type, summary.on_interruption, summary.retrieves) == ("text", "continue", True)


@pytest.mark.requirement("DIRECTORY")
async def test_now_is_the_clock_of_postgres_at_each_look_up(
    pool: Pool, conn: Connection, account: str
) -> None:
    key = await create_key(conn, account, actor="test")
    times = []
    for _ in range(2):
        found = await resolve(pool, key.key, None)
        assert found is not None
        times.append(found[0].now)
    assert times[0] < times[1]
    assert times[0].endswith("Z")
    assert len(times[0]) == len("2026-11-21T10:14:00.940958Z")
    assert abs((datetime.fromisoformat(times[0]) - datetime.now(UTC)).total_seconds()) < 60


@pytest.mark.requirement("AUTH-ANY-AGENT")
async def test_one_key_may_be_used_with_many_agents(pool: Pool, conn: Connection, account: str) -> None:
    key = await create_key(conn, account, actor="test")
    for _ in range(3):
        agent = await create_agent(conn, SEALER, account, DRAFT, actor="test")
        found = await resolve(pool, key.key, agent.upper())
        assert found is not None
        assert found[1] is not None
        assert found[1].agent_id == agent


@pytest.mark.requirement("AGENT-404")
async def test_unknown_foreign_disabled_and_nonsense_agents_look_the_same(
    pool: Pool, conn: Connection, account: str
) -> None:
    key = await create_key(conn, account, actor="test")
    other = (await create_account(conn, name="Other", plan="Pro", actor="test")).account_id
    foreign = await create_agent(conn, SEALER, other, DRAFT, actor="test")
    disabled = await create_agent(conn, SEALER, account, DRAFT, actor="test")
    await set_agent_disabled(conn, account, disabled, True, actor="test")
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


@pytest.mark.requirement("AUTH-401", "ADMIN-DISABLE")
async def test_unknown_revoked_and_disabled_keys_and_those_of_disabled_accounts_look_the_same(
    pool: Pool, conn: Connection, account: str
) -> None:
    revoked = await create_key(conn, account, actor="test")
    await revoke_key(conn, revoked.key_id, actor="test")
    shut = await create_account(conn, name="Shut", plan="Pro", actor="test")
    shut_key = await create_key(conn, shut.account_id, actor="test")
    await set_account_disabled(conn, shut.account_id, True, actor="test")
    disabled = await create_key(conn, account, actor="test")
    await set_key_disabled(conn, disabled.key_id, True, actor="test")
    unknown = ("sk-ac-" + "x" * 43, "", "\x00", "\ud800", "' OR true --")
    for key in (revoked.key, disabled.key, shut_key.key, *unknown):
        assert await resolve(pool, key, None) is None
    await set_account_disabled(conn, shut.account_id, False, actor="test")
    assert await resolve(pool, shut_key.key, None) is not None
    await set_key_disabled(conn, disabled.key_id, False, actor="test")
    assert await resolve(pool, disabled.key, None) is not None


@pytest.mark.requirement("ADMIN-DISABLE", "AUTH-ROTATION")
async def test_a_disabled_key_stays_so_when_it_is_rotated_and_a_revoked_one_is_never_enabled(
    pool: Pool, conn: Connection, account: str
) -> None:
    key = await create_key(conn, account, actor="test")
    await set_key_disabled(conn, key.key_id, True, actor="test")
    fresh = await rotate_key(conn, key.key_id, actor="test")
    assert await resolve(pool, fresh.key, None) is None
    assert (await set_key_disabled(conn, key.key_id, False, actor="test")).disabled is False
    assert await resolve(pool, fresh.key, None) is not None
    await revoke_key(conn, key.key_id, actor="test")
    with pytest.raises(NotFound):
        await set_key_disabled(conn, key.key_id, False, actor="test")


@pytest.mark.requirement("AUTH-ROTATION")
async def test_a_rotated_key_is_dead_at_the_next_look_up_on_every_gateway(
    database_url: str, conn: Connection, account: str
) -> None:
    key = await create_key(conn, account, actor="test")
    async with open_pool(database_url, max_size=1) as first, open_pool(database_url, max_size=1) as second:
        for _ in range(200):
            fresh = await rotate_key(conn, key.key_id, actor="test")
            assert fresh.key_id == key.key_id
            stale = await asyncio.gather(resolve(first, key.key, None), resolve(second, key.key, None))
            assert not any(stale)
            assert await resolve(second, fresh.key, None) is not None
            key = fresh


@pytest.mark.requirement("AUTH-ROTATION")
async def test_a_revoked_key_cannot_be_rotated_back_to_life(conn: Connection, account: str) -> None:
    key = await create_key(conn, account, actor="test")
    await revoke_key(conn, key.key_id, actor="test")
    await revoke_key(conn, key.key_id, actor="test")
    with pytest.raises(NotFound):
        await rotate_key(conn, key.key_id, actor="test")


@pytest.mark.requirement("KEYS-HASHED")
async def test_no_table_holds_a_key(database_url: str, conn: Connection, account: str) -> None:
    key = await create_key(conn, account, actor="test")
    fresh = await rotate_key(conn, key.key_id, actor="test")
    with psycopg.connect(database_url) as owner:
        for (table,) in owner.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        ).fetchall():
            text = str(owner.execute(f'SELECT t::text FROM "{table}" t').fetchall())
            assert key.key not in text, table
            assert fresh.key not in text, table
    assert fresh.key not in repr(fresh)


@pytest.mark.requirement("DIRECTORY")
async def test_a_changed_plan_counts_at_the_next_look_up(pool: Pool, conn: Connection, account: str) -> None:
    key = await create_key(conn, account, actor="test")
    small = Plan(
        name="Small",
        requests_per_minute=1,
        concurrent_runs=None,
        tokens_per_month=None,
        form2_streaming=False,
        max_message_bytes=None,
    )
    await put_plan(conn, small, actor="test")
    await change_account(conn, account, plan="Small", actor="test")
    changed = await change_plan(
        conn, "Small", {"requests_per_minute": None, "concurrent_runs": 3}, actor="test"
    )
    found = await resolve(pool, key.key, None)
    assert found is not None
    assert found[0].plan == changed
    assert (changed.requests_per_minute, changed.concurrent_runs) == (None, 3)


@pytest.mark.requirement("DIRECTORY")
async def test_a_plan_takes_only_numbers_that_can_be_kept(conn: Connection) -> None:
    for changes in ({"concurrent_runs": 0}, {"concurrent_runs": "2"}, {"requests_per_minute": 2**40}):
        with pytest.raises(Invalid):
            await change_plan(conn, "Starter", dict(changes), actor="test")
    with pytest.raises(NotFound):
        await change_plan(conn, "Gold", {}, actor="test")


@pytest.mark.requirement("DIRECTORY")
async def test_accounts_need_a_plan_and_keys_an_account(conn: Connection, account: str) -> None:
    with pytest.raises(NotFound, match="no such plan: Gold"):
        await create_account(conn, name="A", plan="Gold", actor="test")
    with pytest.raises(Conflict, match="account exists already"):
        await create_account(conn, name="A", plan="Pro", actor="test", account_id=account)
    with pytest.raises(NotFound, match="no such account"):
        await create_key(conn, "nobody", actor="test")
    key = await create_key(conn, account, actor="test")
    with pytest.raises(Conflict):
        await create_key(conn, account, actor="test", key=key.key)


@pytest.mark.requirement("DIRECTORY")
async def test_every_change_leaves_an_audit_row_with_who_what_before_and_after(conn: Connection) -> None:
    account = await create_account(conn, name="Audited", plan="Starter", actor="ada")
    await change_account(conn, account.account_id, plan="Pro", actor="bob")
    cursor = await conn.execute(
        "SELECT actor, action, kind, before->>'plan', after->>'plan' FROM audit_log "
        "WHERE subject = %s ORDER BY id",
        [account.account_id],
    )
    assert await cursor.fetchall() == [
        ("ada", "create", "account", None, "Starter"),
        ("bob", "change", "account", "Starter", "Pro"),
    ]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await conn.execute("DELETE FROM audit_log")


@pytest.mark.requirement("DIRECTORY")
async def test_last_use_is_written_once_a_minute_and_off_the_path(
    pool: Pool, conn: Connection, account: str
) -> None:
    key = await create_key(conn, account, actor="test")

    async def last_used() -> datetime | None:
        cursor = await conn.execute("SELECT last_used_at FROM api_keys WHERE key_id = %s", [key.key_id])
        row = await cursor.fetchone()
        assert row is not None
        moment: datetime | None = row[0]
        return moment

    async with LastUsed(pool, every=3600) as noted:
        assert await resolve(pool, key.key, None, last_used=noted) is not None
        assert await last_used() is None
        await noted.write()
        first = await last_used()
        assert first is not None
        await resolve(pool, key.key, None, last_used=noted)
    assert await last_used() == first


@pytest.mark.requirement("DIRECTORY")
async def test_migrating_again_keeps_what_was_changed(database_url: str, conn: Connection) -> None:
    await change_plan(conn, "Starter", {"requests_per_minute": 61}, actor="test")
    await asyncio.gather(*(migrate(database_url) for _ in range(3)))
    cursor = await conn.execute(
        "SELECT name, requests_per_minute FROM plans WHERE name <> 'Small' ORDER BY 2"
    )
    assert await cursor.fetchall() == [
        ("Starter", 61),
        ("Pro", 600),
        ("Enterprise", 6000),
        ("Unlimited", None),
    ]
