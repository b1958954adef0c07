"""GET /v1/conversations by agent, time and title."""

import os

import pytest

from agentchat.contracts import events, ids
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.projections import conversations_table
from agentchat.runtime.postgres import Pool
from tests.gateway import stored
from tests.gateway.client import Client, check_problem
from tests.gateway.conftest import Account, make_account


async def store_thread(store: ConversationStore, account: Account, agent: str, message: str, day: int) -> str:
    conversation_id, trace_id = ids.make_id(), os.urandom(16).hex()
    at = f"2026-11-{day:02}T09:30:00.000000Z"
    started = events.ConversationStarted(trace_id=trace_id, at=at, account_id=account.account_id)
    asked = events.MessageSaved(
        trace_id=trace_id, at=at, message_id=ids.make_id(), role="user", agent_id=agent, content=message
    )
    await store.append(await store.load(conversation_id), [started, asked])
    return conversation_id


async def test_conversations_are_found_by_agent_time_and_title(
    client: Client, store: ConversationStore, pool: Pool
) -> None:
    account = await make_account(pool, "Unlimited")
    mine = Client(client.http, client.url, account.key, account.agent)
    one = await store_thread(store, account, account.agent, "Where is my PARCEL?", 1)
    two = await store_thread(store, account, account.second_agent, "100 % wool_socks", 2)
    three = await store_thread(store, account, account.agent, "A parcel is lost", 3)
    described = events.ConversationDescribed(
        trace_id=os.urandom(16).hex(), at=stored.AT, title="Ärger", metadata={"customer": "C-77"}
    )
    await store.append(await store.load(three), [described])
    await stored.project(pool, conversations_table.PROJECTION)

    async def list_ids(**query: str) -> list[str]:
        page = (await mine.get("/v1/conversations", **query)).json()
        return [row["conversation_id"] for row in page["data"]]

    assert await list_ids(agent_id=account.agent.upper()) == [three, one]
    assert await list_ids(agent_id=account.second_agent) == [two]
    assert await list_ids(title="parcel") == [one], "a title that was set takes the place of the first"
    assert await list_ids(title="äRG") == [three]
    assert await list_ids(title="0 % w") == [two]
    assert await list_ids(title="%") == [two], "no character is a wildcard"
    assert await list_ids(created_after="2026-11-02T09:30:00Z") == [three, two]
    assert await list_ids(created_before="2026-11-02T10:30:00+01:00") == [one]
    day = {"created_after": "2026-11-02T00:00:00Z", "created_before": "2026-11-03T00:00:00Z"}
    assert await list_ids(**day) == [two]
    assert await list_ids(agent_id=account.agent, **day) == []
    assert await list_ids(agent_id=account.agent, title="r", **{"metadata.customer": "C-77"}) == [three]
    first = (await mine.get("/v1/conversations", agent_id=account.agent, limit="1")).json()
    assert await list_ids(agent_id=account.agent, cursor=first["next_cursor"]) == [one]
    bounded = {"created_before": "2026-11-02T00:00:00Z", "cursor": first["next_cursor"]}
    assert await list_ids(**bounded) == [one], "the earlier of the cursor and the time counts"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("agent_id", "Shop"),
        ("user", "CUST-001"),
        ("metdata.customer", "C-77"),
        ("query", "tent"),
        ("created_after", "yesterday"),
        ("created_after", "2026-11-02"),
        ("created_before", "2026-11-02T09:30:00"),
        ("created_before", "2026-13-02T09:30:00Z"),
        ("created_before", "1764579600"),
        ("title", ""),
        ("title", "x" * 257),
        ("metadata.", "x"),
        (f"metadata.{'k' * 65}", "x"),
        ("metadata.a", "x" * 513),
    ],
)
async def test_a_filter_that_cannot_be_is_refused_by_name(
    client: Client, name: str, value: str | list[str]
) -> None:
    problem = check_problem(await client.get("/v1/conversations", **{name: value}), 400, "invalid_request")
    named = [error["field"].partition(".")[0] for error in problem["errors"]]
    assert named == [name.partition(".")[0]]
