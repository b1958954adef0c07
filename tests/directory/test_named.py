"""What callers may call an agent by, and what finds it."""

import pytest

from administration.versions import change_agent, create_agent
from directory.agent_draft import AgentChanges, AgentDraft
from directory.named import agent_called, named_agents
from directory.secrets import Sealer
from runtime.postgres import Connection, Pool

pytestmark = pytest.mark.requirement("OPENAI-DOOR")

SEALER = Sealer(b"k" * 32)


async def _make(conn: Connection, account: str, name: str) -> str:
    draft = AgentDraft(name=name, model="m", provider_key="k")
    return await create_agent(conn, SEALER, account, draft, actor="test")


async def test_an_id_finds_its_agent_however_many_have_its_name(
    pool: Pool, conn: Connection, account: str
) -> None:
    same = [await _make(conn, account, "Shop") for _ in range(5)]
    for agent_id in same:
        found = await agent_called(pool, account, agent_id.upper())
        assert found is not None
        assert found.agent_id == agent_id
        assert found.called == agent_id, "as in the list"
    named_like = await _make(conn, account, same[0])
    found = await agent_called(pool, account, same[0])
    assert found is not None
    assert found.agent_id == same[0]
    assert await agent_called(pool, account, "Shop") is None
    listed = await named_agents(pool, account)
    assert [agent.called for agent in listed] == [*same, named_like]


async def test_a_name_is_enough_where_no_other_enabled_agent_has_it(
    pool: Pool, conn: Connection, account: str
) -> None:
    one, other = [await _make(conn, account, "Shop") for _ in range(2)]
    await change_agent(conn, SEALER, other, AgentChanges(disabled=True), actor="test")
    found = await agent_called(pool, account, "Shop")
    assert found is not None
    assert found.agent_id == one
    assert found.called == "Shop"
    assert await agent_called(pool, account, other) is None
    for name in ("a/b", ".", ".."):
        unfit = await _make(conn, account, name)
        found = await agent_called(pool, account, name)
        assert found is not None
        assert found.called == unfit, "it cannot stand in an address"
