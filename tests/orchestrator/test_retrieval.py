"""What a run is given out of its agent's knowledge base."""

from collections.abc import AsyncIterator

import pytest

from agentchat.administration import admin_knowledge
from agentchat.administration.admin_values import KnowledgeBaseChanges
from agentchat.directory.agent_config import AgentConfig, Retrieval
from agentchat.orchestrator.run.retrieval import Retriever
from agentchat.runtime.postgres import open_pool
from tests.administrator import administrator
from tests.knowledge.shelf import Shelf

RETURNS = "You may return goods unused within 30 days of delivery."


@pytest.fixture
async def shelf(migrated_database_url: str) -> AsyncIterator[Shelf]:
    async with open_pool(migrated_database_url) as pool:
        shelf = await Shelf.create(pool)
        await shelf.put("returns.txt", RETURNS)
        yield shelf


async def disable(shelf: Shelf, disabled: bool) -> None:
    changes = KnowledgeBaseChanges(disabled=disabled)
    await admin_knowledge.change(administrator(shelf.pool), shelf.id, changes)


def get_run(shelf: Shelf) -> Retriever:
    looks = Retrieval(knowledge_base_id=shelf.id)
    agent = AgentConfig(
        name="Guide", model="m", retrieval=looks, agent_id="a", account_id=shelf.account, version=1
    )
    return Retriever(shelf.pool, agent)


async def test_disabled_knowledge_base_affects_only_new_runs(
    shelf: Shelf,
) -> None:
    before = await get_run(shelf).find("returning goods")
    assert [source.snippet for source in before] == [RETURNS]
    await disable(shelf, True)
    run = get_run(shelf)
    assert await run.find("returning goods") == ()
    assert await run.load_documents(()) == ""
    assert RETURNS in await get_run(shelf).load_documents(before)
    await disable(shelf, False)
    assert await get_run(shelf).find("returning goods") == before
