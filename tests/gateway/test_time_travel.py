"""Time travel, `?at=`: a conversation and its messages as they were."""

from agentchat.contracts import ids
from agentchat.conversations.event_store.conversation_store import ConversationStore
from tests.gateway import stored
from tests.gateway.client import Client, check_problem
from tests.gateway.conftest import Account, Accounts


async def store_thread(store: ConversationStore, account: Account) -> str:
    """Seven events of a first turn, and two of a second that goes on."""
    first = stored.request(account, message="Where is it?")
    await stored.write(store, first, *stored.has_ended(first, "It has shipped.", ids.make_id()))
    await stored.write(store, stored.request(account, first.conversation_id, message="And when?"))
    return first.conversation_id


async def test_a_conversation_is_served_as_it_was(
    client: Client, store: ConversationStore, accounts: Accounts
) -> None:
    path = f"/v1/conversations/{await store_thread(store, accounts.free)}"
    now = await client.get(path)
    assert now.json()["message_count"] == 3
    assert now.headers["x-conversation-version"] == "9"
    assert (await client.get(path, at="9")).json() == now.json()
    assert (await client.get(path, at="2999-01-01T00:00:00Z")).json() == now.json()
    assert (await client.get(path, at=stored.AT)).json() == now.json()  # all of it is of one moment
    for at, count in {"2": 1, "5": 1, "6": 2, "7": 2, "8": 3}.items():
        then = await client.get(path, at=at)
        assert then.json()["message_count"] == count
        assert then.headers["x-conversation-version"] == at
        assert then.json().keys() == now.json().keys()
        page = (await client.get(f"{path}/messages", at=at)).json()["data"]
        assert [row["content"] for row in page] == ["Where is it?", "It has shipped.", "And when?"][:count]
    page = (await client.get(f"{path}/messages", at="7", limit=1)).json()
    rest = (await client.get(f"{path}/messages", at="7", cursor=page["next_cursor"])).json()
    assert [row["content"] for row in rest["data"]] == ["It has shipped."]
    assert rest["next_cursor"] is None


async def test_a_place_that_is_none_names_the_field(
    client: Client, store: ConversationStore, accounts: Accounts
) -> None:
    conversation_id = await store_thread(store, accounts.free)
    for path in (f"/v1/conversations/{conversation_id}", f"/v1/conversations/{conversation_id}/messages"):
        for at in ("", "-1", "x", "1e1", "\x00", "9" * 400, "2026-02-30"):
            problem = check_problem(await client.get(path, at=at), 400, "invalid_request")
            assert [error["field"] for error in problem["errors"]] == ["at"], at
        problem = check_problem(await client.get(path, at="10"), 400, "invalid_request")
        assert problem["detail"] == "at: The conversation is at version 9."
        for at in ("0", "1", "2020-01-01T00:00:00Z"):  # before its first message
            check_problem(await client.get(path, at=at), 404, "conversation_not_found")
