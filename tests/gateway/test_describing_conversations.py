"""PATCH of a conversation, with an orchestrator that the test plays: bodies, keys, and what is answered."""

import os
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import pytest

from agentchat.contracts import events, ids, subjects, wire
from agentchat.contracts.messages import DescribeAnswered, DescribeConversation, DescribeOutcome
from agentchat.conversations.event_store.conversation_store import ConversationStore
from tests.gateway import stored
from tests.gateway.client import Client, check_problem
from tests.gateway.conftest import Account, Accounts
from tests.gateway.worker import Worker


def answer_descriptions(
    worker: Worker, outcome: DescribeOutcome = "described", version: int = 0
) -> AbstractAsyncContextManager[list[DescribeConversation]]:
    """Commands are answered so; gives those that come."""
    answered = DescribeAnswered(outcome=outcome, version=version)
    return worker.answer_requests(subjects.ALL_COMMANDS, DescribeConversation, answered)


async def make_thread(store: ConversationStore, account: Account, **metadata: str) -> str:
    """Four versions of a conversation and, as the fifth, its description."""
    asked = stored.request(account)
    await stored.write(store, asked, *stored.has_ended(asked, "It has shipped.", ids.make_id()))
    conversation = await store.load(asked.conversation_id)
    described = events.ConversationDescribed(
        trace_id=os.urandom(16).hex(), at=stored.AT, title="The parcel", metadata=metadata
    )
    await store.append(conversation, [described])
    return asked.conversation_id


async def patch(client: Client, conversation_id: str, body: Any, **headers: str) -> httpx.Response:
    return await client.send("PATCH", f"/v1/conversations/{conversation_id}", json=body, headers=headers)


async def test_what_is_set_is_answered_as_it_then_is(
    client: Client, worker: Worker, store: ConversationStore, accounts: Accounts
) -> None:
    conversation_id = await make_thread(store, accounts.free, customer="C-77")
    version = (await store.load(conversation_id)).version
    async with answer_descriptions(worker, version=version) as heard:
        response = await patch(
            client,
            conversation_id.upper(),
            {"title": "The parcel", "metadata": {"customer": "C-77", "x": None}},
        )
    assert response.status_code == 200
    assert response.headers["x-conversation-version"] == str(version)
    shown = response.json()
    assert (shown["title"], shown["metadata"]) == ("The parcel", {"customer": "C-77"})
    assert shown == (await client.get(f"/v1/conversations/{conversation_id}")).json()
    before = (await client.get(f"/v1/conversations/{conversation_id}", at=str(version - 1))).json()
    assert (before["title"], before["metadata"]) == ("Where is my order?", {})
    assert heard == [
        DescribeConversation(
            trace_id=response.headers["x-trace-id"],
            account_id=accounts.free.account_id,
            conversation_id=conversation_id,
            title="The parcel",
            metadata={"customer": "C-77", "x": None},
        )
    ]


async def test_missing_null_and_nul_values_reach_the_worker(client: Client, worker: Worker) -> None:
    async with answer_descriptions(worker, "not_found") as heard:
        for body in ({"title": None}, {"metadata": None}, {"title": "a\0b", "metadata": {"k\0": "v\0"}}):
            check_problem(await patch(client, ids.make_id(), body), 404, "conversation_not_found")
    first, second, third = (wire.encode(each) for each in heard)
    assert b'"title":null,"metadata":{}' in first
    assert b'"title"' not in second
    assert b'"metadata":null' in second
    assert '"title":"a\ufffdb","metadata":{"k\ufffd":"v\ufffd"}'.encode() in third


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"title": " "}, "title"),
        ({"title": "x" * 257}, "title"),
        ({"title": 1}, "title"),
        ({"metadata": []}, "metadata"),
        ({"metadata": "x"}, "metadata"),
        ({"metadata": {"": "x"}}, "metadata."),
        ({"metadata": {"k" * 65: "x"}}, "metadata." + "k" * 65),
        ({"metadata": {"k": "x" * 513}}, "metadata.k"),
        ({"metadata": {"k": 1}}, "metadata.k"),
        ({"metadata": {"k": {}}}, "metadata.k"),
        ({"metadata": {str(n): None for n in range(33)}}, "metadata"),
        ({"titel": "x"}, "titel"),
        ({}, "title"),
    ],
)
async def test_an_invalid_description_is_refused_by_its_field(
    client: Client, worker: Worker, body: dict[str, Any], field: str
) -> None:
    async with answer_descriptions(worker) as heard:
        problem = check_problem(await patch(client, ids.make_id(), body), 400, "invalid_request")
    assert problem["errors"][0]["field"] == field
    assert heard == []


async def test_too_many_pairs_in_all_are_refused_by_their_name(client: Client, worker: Worker) -> None:
    async with answer_descriptions(worker, "too_many_pairs"):
        problem = check_problem(
            await patch(client, ids.make_id(), {"metadata": {"k": "v"}}), 400, "invalid_request"
        )
    assert problem["errors"][0]["field"] == "metadata"


async def test_a_key_stands_for_one_request(
    client: Client, worker: Worker, store: ConversationStore, accounts: Accounts
) -> None:
    conversation_id = await make_thread(store, accounts.free)
    version = (await store.load(conversation_id)).version
    key = {"Idempotency-Key": ids.make_id()}
    async with answer_descriptions(worker, version=version) as heard:
        first = await patch(client, conversation_id, {"metadata": {"a": "1", "b": "2"}}, **key)
        again = await patch(client, conversation_id, {"metadata": {"b": "2", "a": "1"}}, **key)
        assert first.headers["x-trace-id"] == again.headers["x-trace-id"]
        assert first.json() == again.json()
        for other, body in (
            (conversation_id, {"title": "x"}),
            (ids.make_id(), {"metadata": {"a": "1", "b": "2"}}),
        ):
            check_problem(await patch(client, other, body, **key), 409, "idempotency_conflict")
        wrong = await patch(client, conversation_id, {"title": "x"}, **{"Idempotency-Key": "a b"})
        assert check_problem(wrong, 400, "invalid_request")["errors"][0]["field"] == "Idempotency-Key"
    assert len(heard) == 2
    assert len({each.trace_id for each in heard}) == 1


async def test_a_full_conversation_is_refused(client: Client, worker: Worker) -> None:
    async with answer_descriptions(worker, "full"):
        check_problem(await patch(client, ids.make_id(), {"title": "x"}), 409, "conversation_full")
