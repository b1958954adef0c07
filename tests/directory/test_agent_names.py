"""What callers may call an agent by, and what finds it."""

import asyncio

from agentchat.administration import Admin, admin_accounts
from agentchat.administration.admin_values import NewAccount
from agentchat.administration.agent_versions import change_agent, create_agent
from agentchat.directory.agent_names import find_agent_id, find_named_agent, list_named_agents
from agentchat.directory.agent_validation import AgentChanges, AgentDraft
from agentchat.directory.secret_encryption import Sealer
from agentchat.runtime.postgres import Connection, Pool

SEALER = Sealer(b"k" * 32)


async def _make(conn: Connection, account: str, name: str) -> str:
    draft = AgentDraft(name=name, model="m", provider_key="k")
    return await create_agent(conn, SEALER, account, draft, actor="test")


async def _resolve(pool: Pool, account: str, name: str) -> str | None:
    """What is found, as the list has it too."""
    found = await find_agent_id(pool, account, name)
    listed = find_named_agent(await list_named_agents(pool, account), name)
    assert found == (None if listed is None else listed.agent_id)
    return found


async def test_an_id_finds_its_agent_however_many_have_its_name(
    pool: Pool, conn: Connection, account: str
) -> None:
    same = [await _make(conn, account, "Shop") for _ in range(5)]
    for agent_id in same:
        assert await _resolve(pool, account, agent_id.upper()) == agent_id
    named_like = await _make(conn, account, same[0])
    assert await _resolve(pool, account, same[0]) == same[0]
    assert await _resolve(pool, account, "Shop") is None
    listed = await list_named_agents(pool, account)
    assert [agent.public_name for agent in listed] == [*same, named_like]


async def test_a_name_is_enough_where_no_other_enabled_agent_has_it(
    pool: Pool, conn: Connection, account: str
) -> None:
    one, other = [await _make(conn, account, "Shop") for _ in range(2)]
    await change_agent(conn, SEALER, other, AgentChanges(disabled=True), actor="test")
    assert await _resolve(pool, account, "Shop") == one
    assert await _resolve(pool, account, other) is None
    unfit = [await _make(conn, account, name) for name in ("a/b", ".", "..")]
    for agent_id, name in zip(unfit, ("a/b", ".", ".."), strict=True):
        assert await _resolve(pool, account, name) == agent_id
    listed = {agent.agent_id: agent.public_name for agent in await list_named_agents(pool, account)}
    assert [listed[agent_id] for agent_id in unfit] == unfit, "it cannot stand in an address"
    assert listed[one] == "Shop"


async def test_concurrent_look_ups_find_the_same_as_single_ones(
    pool: Pool, conn: Connection, admin: Admin, account: str
) -> None:
    odd = ('"', "\\", '{"a","b"}', "NULL", "null", "{}", ",", " x ", "é\u2028", "n" * 200, "%s", "{0}")
    made = {name: await _make(conn, account, name) for name in odd}
    other = (await admin_accounts.create(admin, NewAccount(name="other", plan="Unlimited"))).id
    foreign = await _make(conn, other, "Theirs")
    asked = [*odd, "n" * 10**6, "\x00", "\ud800", "", "Theirs", foreign]
    found = await asyncio.gather(*(find_agent_id(pool, account, name) for name in asked))
    assert found == [*made.values(), None, None, None, None, None, None]
    assert await find_agent_id(pool, other, "Theirs") == foreign
    assert await find_agent_id(pool, other, odd[0]) is None


async def test_renamed_or_disabled_agent_is_seen_at_the_next_look_up(
    pool: Pool, conn: Connection, account: str
) -> None:
    agent_id = await _make(conn, account, "Shop")
    for number in range(20):
        noise = asyncio.gather(*(find_agent_id(pool, account, "other") for _ in range(10)))
        await change_agent(conn, SEALER, agent_id, AgentChanges(name=f"Shop {number}"), actor="test")
        former = f"Shop {number - 1}" if number else "Shop"
        found = await asyncio.gather(
            find_agent_id(pool, account, former), find_agent_id(pool, account, f"Shop {number}")
        )
        assert [*found] == [None, agent_id]
        await noise
    await change_agent(conn, SEALER, agent_id, AgentChanges(disabled=True), actor="test")
    assert await find_agent_id(pool, account, agent_id) is None
