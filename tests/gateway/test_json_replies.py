"""POST /v1/chat: one JSON, and refusals with the status of their code."""

import asyncio
from typing import Any

import httpx
import pytest

from agentchat.contracts import errors, ids
from agentchat.conversations.event_store.store import ConversationStore
from tests.gateway import stored
from tests.gateway.client import Client, check_problem
from tests.gateway.conftest import Accounts
from tests.gateway.worker import Turn, Worker

Waiting = asyncio.Task[httpx.Response]


async def ask(client: Client, worker: Worker, message: str = "hi", **body: Any) -> tuple[Turn, Waiting]:
    """A JSON request under way, and the turn that answers it."""
    waiting = asyncio.create_task(client.chat(message, **body))
    return await worker.next(message), waiting


async def test_the_reply_is_one_json(client: Client, worker: Worker, accounts: Accounts) -> None:
    turn, waiting = await ask(client, worker, message="hello", conversation_id=None)
    message = await turn.answer("Hi.")
    response = await waiting
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-trace-id"] == turn.request.trace_id
    assert response.json() == {
        "conversation_id": turn.request.conversation_id,
        "message": {
            "id": message.id,
            "conversation_id": turn.request.conversation_id,
            "role": "assistant",
            "content": "Hi.",
            "token_count": 42,
            "created_at": message.created_at,
        },
        "usage": {"input": 0, "cache_read": 0, "cache_write": 0, "output": 0, "total": 0},
    }
    request = turn.request
    assert request.account_id == accounts.free.account_id
    assert request.agent_id == accounts.free.agent
    assert request.message == "hello"
    assert request.form == "json"
    assert request.prompt is None
    assert request.new_conversation
    assert ids.is_uuid(request.conversation_id)
    assert ids.is_uuid(request.message_id)
    assert request.requested_at < request.deadline


async def test_tool_calls_are_there_when_tools_ran(
    client: Client, worker: Worker, store: ConversationStore
) -> None:
    turn, waiting = await ask(client, worker)
    await turn.accept()
    await turn.tool("first", "{}")
    await turn.tool("second", "[1]")
    await turn.delta("done")
    await stored.complete(store, turn)
    assert (await waiting).json()["tool_calls"] == [
        {"name": "first", "input": {"id": 1}, "output": "{}", "id": "call-1", "is_error": False},
        {"name": "second", "input": {"id": 1}, "output": "[1]", "id": "call-3", "is_error": False},
    ]


async def test_a_conversation_and_a_prompt_are_handed_on(client: Client, worker: Worker) -> None:
    known = ids.make_id()
    turn, waiting = await ask(client, worker, conversation_id=known.upper(), prompt="Be brief.")
    await turn.answer()
    assert (await waiting).json()["conversation_id"] == known
    assert turn.request.conversation_id == known
    assert turn.request.new_conversation is False
    assert turn.request.prompt == "Be brief."


async def test_one_key_serves_many_agents(client: Client, worker: Worker, accounts: Accounts) -> None:
    for agent in (accounts.free.agent, accounts.free.second_agent.upper()):
        other = Client(client.http, client.url, accounts.free.key, agent)
        turn, waiting = await ask(other, worker)
        await turn.answer()
        assert (await waiting).status_code == 200
        assert turn.request.agent_id == agent.lower()


@pytest.mark.parametrize(
    "code",
    [
        "provider_error",
        "provider_overloaded",
        "provider_timeout",
        "context_too_long",
        "cancelled",
        "unheard_of",
    ],
)
async def test_a_failed_run_is_a_problem_of_its_code(client: Client, worker: Worker, code: str) -> None:
    turn, waiting = await ask(client, worker)
    await turn.accept()
    await turn.fail(code, "it failed")
    row = errors.get_error_code(code)
    problem = check_problem(await waiting, row.status, row.code)
    assert problem["detail"] == "it failed"


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/chat", 409, "conversation_busy"),
        ("/v1/chat/stream", 409, "conversation_busy"),
        ("/v1/chat", 404, "conversation_not_found"),
        ("/v1/chat/stream", 404, "conversation_not_found"),
    ],
)
async def test_what_the_worker_refuses_is_a_status(
    client: Client, worker: Worker, path: str, status: int, code: str
) -> None:
    waiting = asyncio.create_task(client.post(path))
    turn = await worker.next()
    await turn.refuse(code)
    problem = check_problem(await waiting, status, code)
    assert problem["trace_id"] == turn.request.trace_id


async def test_unknown_conversation_is_refused_with_one_message(client: Client, worker: Worker) -> None:
    turn, waiting = await ask(client, worker, conversation_id=ids.make_id())
    await turn.refuse("conversation_not_found", "it belongs to another account")
    by_worker = check_problem(await waiting, 404, "conversation_not_found")
    by_form = check_problem(await client.chat(conversation_id="thread-1"), 404, "conversation_not_found")
    by_read = check_problem(
        await client.get(f"/v1/conversations/{ids.make_id()}"), 404, "conversation_not_found"
    )
    assert by_worker["detail"] == by_form["detail"] == by_read["detail"]


async def test_nothing_is_answered_before_the_acceptance(client: Client, worker: Worker) -> None:
    opening = asyncio.create_task(client.open())
    turn = await worker.next()
    await turn.delta("too early", lost=True)
    done, _ = await asyncio.wait([opening], timeout=0.3)
    assert not done
    turn.seq = 0
    await turn.accept()
    events = await opening
    await turn.complete("")
    await events.rest()
    await events.response.aclose()
