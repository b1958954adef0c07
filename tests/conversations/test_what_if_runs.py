"""What-if runs of an erased conversation are gone at once, whatever is asked of them."""

import pytest

from agentchat.contracts.ids import make_id
from agentchat.conversations.queries import what_if_runs
from tests.conversations.given import ACCOUNT, trace, turn
from tests.conversations.read_models import Storage

pytestmark = pytest.mark.usefixtures("empty_database")


async def test_erased_conversation_leaves_every_view_of_a_what_if(storage: Storage) -> None:
    thread, what_if_id = await storage.add(*turn("a", "Hello", "Hi")), make_id()
    question = what_if_runs.WhatIfQuestion(
        account_id=ACCOUNT, agent_id="agent-1", agent_version=1, model=None, system_prompt=None, actor="ada"
    )
    await what_if_runs.add(storage.pool, what_if_id, question, [(thread.conversation_id, trace("a"))])

    async def list_views() -> list[bool]:
        listed = await what_if_runs.list_newest(storage.pool, 100)
        found = await what_if_runs.find(storage.pool, what_if_id)
        return [what_if_id in {each.what_if_id for each in listed}, bool(found)]

    assert await list_views() == [True, True]
    await storage.erase(thread)
    assert await list_views() == [False, False]
    assert await what_if_runs.claim(storage.pool, what_if_id) is None
