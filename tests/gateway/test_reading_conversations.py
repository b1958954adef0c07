"""Conversations read back: from the fold of the log, and in pages from the read model."""

from agentchat.contracts import events, ids
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.projections import conversations_table
from agentchat.runtime.postgres import Pool
from tests.gateway import stored
from tests.gateway.client import Client, check_problem
from tests.gateway.conftest import Account, Accounts
from tests.gateway.event_streams import SOURCE, ask_events, tell_story

MESSAGE = "Where is my order? " * 10


async def exchange(store: ConversationStore, account: Account, conversation_id: str | None = None) -> str:
    """A message and its reply; returns the conversation."""
    asked = stored.request(account, conversation_id, message=MESSAGE)
    await stored.write(store, asked, *stored.has_ended(asked, "It has shipped.", ids.make_id()))
    return asked.conversation_id


async def test_a_conversation_and_its_messages_are_there_at_once(
    client: Client, store: ConversationStore, accounts: Accounts
) -> None:
    conversation_id = await exchange(store, accounts.free)
    unanswered = stored.request(accounts.free, conversation_id, message=MESSAGE)
    await stored.write(store, unanswered)
    found = await client.get(f"/v1/conversations/{conversation_id.upper()}")
    assert found.json() == {
        "conversation_id": conversation_id,
        "title": MESSAGE[:80],
        "agent_id": accounts.free.agent,
        "message_count": 3,
        "created_at": stored.AT,
        "updated_at": stored.AT,
        "metadata": {},
        "forked_from": None,
        "user_id": None,
        "external_id": None,
    }
    response = await client.get(f"/v1/conversations/{conversation_id}/messages")
    assert response.headers["x-trace-id"]
    page = response.json()
    assert page["next_cursor"] is None
    assert [(row["role"], row["content"]) for row in page["data"]] == [
        ("user", MESSAGE),
        ("assistant", "It has shipped."),
        ("user", MESSAGE),
    ]
    assert [row.get("token_count") for row in page["data"]] == [None, 7, None]
    assert page["data"][2] == {
        "id": unanswered.message_id,
        "conversation_id": conversation_id,
        "role": "user",
        "content": unanswered.message,
        "created_at": stored.AT,
        "agent_id": accounts.free.agent,
        "trace_id": unanswered.trace_id,
    }


async def test_messages_come_in_pages(client: Client, store: ConversationStore, accounts: Accounts) -> None:
    conversation_id = await exchange(store, accounts.free)
    for _ in range(2):
        await exchange(store, accounts.free, conversation_id)
    path = f"/v1/conversations/{conversation_id}/messages"
    whole = (await client.get(path)).json()["data"]
    assert len(whole) == 6
    assert await read_pages(client, path, limit=4) == [whole[:4], whole[4:]]
    assert await read_pages(client, path, limit=3) == [whole[:3], whole[3:]]
    for cursor in ("x", "!!", "bnVsbA", "WyJhIl0", "ImFiYyI"):
        problem = check_problem(await client.get(path, cursor=cursor), 400, "invalid_request")
        assert problem["errors"][0]["field"] == "cursor"


async def test_conversations_come_in_pages_the_newest_first(
    client: Client, store: ConversationStore, accounts: Accounts, pool: Pool
) -> None:
    account = accounts.other
    mine = Client(client.http, client.url, account.key, account.agent)
    made = [await exchange(store, account) for _ in range(5)]
    await stored.project(pool, conversations_table.PROJECTION)
    whole = (await mine.get("/v1/conversations")).json()
    assert whole["next_cursor"] is None
    assert [row["conversation_id"] for row in whole["data"]] == made[::-1]
    for row in whole["data"]:
        assert row == (await mine.get(f"/v1/conversations/{row['conversation_id']}")).json()
    rows = whole["data"]
    assert await read_pages(mine, "/v1/conversations", limit=2) == [rows[:2], rows[2:4], rows[4:]]


async def read_pages(client: Client, path: str, limit: int) -> list[list[object]]:
    found, query = [], {"limit": limit}
    while True:
        page = (await client.get(path, **query)).json()
        found.append(page["data"])
        if page["next_cursor"] is None:
            return found
        query["cursor"] = page["next_cursor"]


async def test_a_reply_has_its_tool_calls_and_its_sources(
    client: Client, store: ConversationStore, accounts: Accounts
) -> None:
    asked = ask_events(accounts)
    await stored.write(store, asked, *tell_story(asked))
    path = f"/v1/conversations/{asked.conversation_id}/messages"
    user, reply = (await client.get(path)).json()["data"]
    assert "tool_calls" not in user
    assert [(call["id"], call["output"], call["is_error"]) for call in reply["tool_calls"]] == [
        ("c1", '{"ok":1}', False),
        ("c2", '{"ok":1}', False),
    ]
    assert [source["id"] for source in reply["sources"]] == [SOURCE.id]
    first = (await client.get(path, limit=1)).json()
    (later,) = (await client.get(path, limit=1, cursor=first["next_cursor"])).json()["data"]
    assert later == reply, "also where the page begins between the message and its reply"


async def test_a_page_ends_with_the_outputs_that_fill_it(
    client: Client, store: ConversationStore, accounts: Accounts
) -> None:
    conversation_id = ids.make_id()
    for _ in range(2):
        asked = stored.request(accounts.free, conversation_id, message="hi")
        trace_id = asked.trace_id
        called = {"trace_id": trace_id, "at": stored.AT, "round": 1}
        tools: list[events.Event] = []
        for number in range(5):
            call_id = f"c{number}"
            tools += [
                events.ToolCalled(**called, call_id=call_id, name="look", input={}),  # type: ignore[arg-type]
                events.ToolReturned(
                    **called,  # type: ignore[arg-type]
                    call_id=call_id,
                    output=f'"{"x" * 250_000}"',
                    is_error=False,
                    ms=1,
                ),
            ]
        await stored.write(store, asked, *tools, *stored.has_ended(asked, "So.", ids.make_id()))
    path = f"/v1/conversations/{conversation_id}/messages"
    page = (await client.get(path)).json()
    assert [len(row.get("tool_calls", ())) for row in page["data"]] == [0, 5]
    rest = (await client.get(path, cursor=page["next_cursor"])).json()
    assert [len(row.get("tool_calls", ())) for row in rest["data"]] == [0, 5]
    assert rest["next_cursor"] is None
