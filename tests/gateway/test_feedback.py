"""Feedback on a reply over HTTP, with an orchestrator that the test plays by the rules of the aggregate."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentchat.contracts import events, ids, subjects
from agentchat.contracts.messages import FeedbackAnswered, GiveFeedback
from agentchat.contracts.values import MAX_COMMENT, MAX_LABEL
from agentchat.conversations.aggregate import feedback_rules
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.projections import conversations_table, feedback_table, messages_table
from agentchat.runtime.postgres import Pool
from tests.gateway import stored
from tests.gateway.client import Client, check_problem
from tests.gateway.conftest import Accounts
from tests.gateway.worker import Worker

READ_MODELS = (messages_table.PROJECTION, feedback_table.PROJECTION, conversations_table.PROJECTION)


@pytest.fixture
async def commands(worker: Worker, store: ConversationStore) -> AsyncIterator[list[GiveFeedback]]:
    """Commands are obeyed; gives those that come."""

    async def obey(command: GiveFeedback) -> FeedbackAnswered:
        conversation = await store.load(command.conversation_id)
        decided = feedback_rules.give_feedback(conversation, command, stored.AT)
        if isinstance(decided, FeedbackAnswered):
            return decided
        after = await store.append(conversation, [decided])
        return FeedbackAnswered(outcome="recorded", version=after.version)

    async with worker.answer_requests(subjects.ALL_COMMANDS, GiveFeedback, obey) as heard:
        yield heard


@pytest.fixture
async def reply(store: ConversationStore, accounts: Accounts, pool: Pool) -> events.MessageSaved:
    """A reply of the free account, which the read model knows."""
    request = stored.request(accounts.free)
    ended = stored.has_ended(request, "It has shipped.", ids.derive_reply_id(request.trace_id))
    await stored.write(store, request, *ended)
    await stored.project(pool, *READ_MODELS)
    (saved,) = (each for each in ended if isinstance(each, events.MessageSaved))
    return saved


async def list_messages(client: Client, conversation_id: str, **query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        await client.get(f"/v1/conversations/{conversation_id}/messages", **query)
    ).json()["data"]
    return found


async def test_it_is_given_read_replaced_and_taken_back(
    client: Client, commands: list[GiveFeedback], reply: events.MessageSaved, accounts: Accounts, pool: Pool
) -> None:
    path = f"/v1/messages/{reply.message_id}/feedback"
    body = {"score": -1, "label": "wrong", "comment": "No\0", "on_behalf_of": "ada"}
    first = await client.send("POST", f"/v1/messages/{reply.message_id.upper()}/feedback", json=body)
    assert first.status_code == 200
    conversation_id = first.json()["conversation_id"]
    assert first.json() == {
        "message_id": reply.message_id,
        "conversation_id": conversation_id,
        "trace_id": reply.trace_id,
        "score": -1.0,
        "label": "wrong",
        "comment": "No\ufffd",
        "on_behalf_of": "ada",
        "by": {"kind": "account", "id": accounts.free.key_id},
        "at": stored.AT,
    }
    other = await client.send("POST", f"/v1/messages/{reply.trace_id}/feedback", json={"score": 0.5})
    assert other.json()["message_id"] == reply.message_id, "by the trace of its run too"
    given = (await client.get(path)).json()["data"]
    assert given == [other.json(), first.json()]
    question, answer = await list_messages(client, conversation_id)
    assert "feedback" not in question
    assert answer["feedback"] == {"count": 2, "mean_score": -0.25, "newest": other.json()}
    before = await list_messages(client, conversation_id, at="7")
    assert "feedback" not in before[1], "as it was"
    await stored.project(pool, *READ_MODELS)
    listed = (await client.get("/v1/conversations", rating="bad")).json()["data"]
    assert conversation_id in [each["conversation_id"] for each in listed]
    listed = (await client.get("/v1/conversations", rating="good")).json()["data"]
    assert conversation_id not in [each["conversation_id"] for each in listed]
    for _ in range(2):
        gone = await client.send("DELETE", path, params={"on_behalf_of": "ada"})
        assert gone.status_code == 204
    assert (await client.get(path)).json()["data"] == [other.json()]
    assert len(commands) == 4


async def test_a_reply_that_the_read_model_does_not_know_yet_is_waited_for(
    client: Client,
    commands: list[GiveFeedback],
    store: ConversationStore,
    accounts: Accounts,
    pool: Pool,
) -> None:
    request = stored.request(accounts.free)
    message_id = ids.make_id()
    await stored.write(store, request, *stored.has_ended(request, "It has shipped.", message_id))
    path = f"/v1/messages/{message_id}/feedback"
    problem = check_problem(await client.send("POST", path, json={"score": 1}), 503, "overloaded")
    assert problem["detail"] == "The newest messages are not known yet."
    await stored.project(pool, *READ_MODELS)
    assert (await client.send("POST", path, json={"score": 1})).status_code == 200
    assert len(commands) == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "score"),
        ({"score": 1.1}, "score"),
        ({"score": "1"}, "score"),
        ({"score": None}, "score"),
        ({"score": 1, "label": ""}, "label"),
        ({"score": 1, "label": "x" * (MAX_LABEL + 1)}, "label"),
        ({"score": 1, "comment": "x" * (MAX_COMMENT + 1)}, "comment"),
        ({"score": 1, "on_behalf_of": ""}, "on_behalf_of"),
        ({"score": 1, "on_behalf_of": "x" * 201}, "on_behalf_of"),
        ({"score": 1, "rating": 1}, "rating"),
    ],
)
async def test_invalid_feedback_is_refused_by_its_field(
    client: Client, commands: list[GiveFeedback], body: dict[str, Any], field: str
) -> None:
    response = await client.send("POST", f"/v1/messages/{ids.make_id()}/feedback", json=body)
    assert check_problem(response, 400, "invalid_request")["errors"][0]["field"] == field
    assert commands == []


@pytest.mark.parametrize(
    ("outcome", "status", "code"),
    [
        ("full", 409, "conversation_full"),
        ("too_many", 400, "invalid_request"),
        ("not_found", 404, "not_found"),
    ],
)
async def test_what_the_conversation_does_not_take_is_refused(
    client: Client, worker: Worker, reply: events.MessageSaved, outcome: Any, status: int, code: str
) -> None:
    async with worker.answer_requests(subjects.ALL_COMMANDS, GiveFeedback, FeedbackAnswered(outcome=outcome)):
        response = await client.send("POST", f"/v1/messages/{reply.message_id}/feedback", json={"score": 1})
    check_problem(response, status, code)
