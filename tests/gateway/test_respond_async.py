"""Prefer: respond-async on POST /v1/chat, and GET /v1/chat/{trace_id}: the test plays the worker."""

import asyncio
from collections.abc import Callable

import pytest

from agentchat.contracts import events, frames
from agentchat.contracts.values import Usage
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.leases.waiting_line import WaitingLine
from agentchat.runtime.postgres import Pool
from tests.gateway import stored
from tests.gateway.client import Client, check_problem
from tests.gateway.conftest import Accounts
from tests.gateway.event_streams import SOURCE, ask_events, tell_story
from tests.gateway.stored import AT, write
from tests.gateway.worker import Worker

End = Callable[[str], tuple[events.Event, ...]]


async def test_an_async_request_names_the_run_that_has_the_reply(
    client: Client, elsewhere: Client, worker: Worker, store: ConversationStore
) -> None:
    waiting = asyncio.create_task(client.post(prefer="wait=5, Respond-Async"))
    turn = await worker.next()
    await write(store, turn.request)
    await turn.accept()
    accepted, trace_id = await waiting, turn.request.trace_id
    known = {"trace_id": trace_id, "conversation_id": turn.request.conversation_id}
    assert (accepted.status_code, accepted.json()) == (202, {**known, "status": "running"})
    assert accepted.headers["location"] == f"/v1/chat/{trace_id}"
    assert accepted.headers["preference-applied"] == "respond-async"
    running = (await elsewhere.get(accepted.headers["location"])).json()
    assert running == {**known, "status": "running", "usage": dict.fromkeys(running["usage"], 0)}
    await turn.delta("Hello.")
    reply = await stored.complete(store, turn)
    done = (await elsewhere.get(accepted.headers["location"])).json()
    assert (done["status"], done["message"]["id"], done["message"]["content"]) == (
        "completed",
        reply.id,
        "Hello.",
    )
    assert done["usage"]["total"] == done["message"]["token_count"] == 7


async def test_an_async_request_does_not_wait_for_its_turn(client: Client, worker: Worker) -> None:
    waiting = asyncio.create_task(client.post(prefer="respond-async"))
    turn = await worker.next()
    await turn.say(frames.Queued(seq=0, attempt=1))
    accepted = await waiting
    assert (accepted.status_code, accepted.json()["status"]) == (202, "queued")


def fail(trace_id: str) -> tuple[events.Event, ...]:
    return (events.RunFailed(trace_id=trace_id, at=AT, code="provider_timeout", message=""),)


def cancel(trace_id: str) -> tuple[events.Event, ...]:
    return (events.RunCancelled(trace_id=trace_id, at=AT, usage=Usage(output_tokens=3)),)


def wait(trace_id: str) -> tuple[events.Event, ...]:
    called = {"trace_id": trace_id, "at": AT, "round": 1, "call_id": "c"}
    return (
        events.ModelReplied(
            trace_id=trace_id, at=AT, round=1, blocks=(), stop_reason="tool_use", usage=Usage()
        ),
        events.ToolCalled(**called, name="cancel_order", input={"id": 1}, needs_approval=True),  # type: ignore[arg-type]
        events.ApprovalRequested(
            **called,  # type: ignore[arg-type]
            approval_id="0192f0c1-0000-7000-8000-0000000000b1",
            input_sha256="",
            expires_at="2126-11-28T09:30:00.000000Z",
            agent_id="a",
            server="shop",
            tool="cancel_order",
        ),
    )


@pytest.mark.parametrize(
    ("end", "status", "code"),
    [(fail, "failed", "provider_timeout"), (cancel, "cancelled", "cancelled")],
)
async def test_a_run_without_a_reply_says_why(
    client: Client, accounts: Accounts, store: ConversationStore, end: End, status: str, code: str
) -> None:
    request = ask_events(accounts, "json")
    await write(store, request, *end(request.trace_id))
    found = (await client.get(f"/v1/chat/{request.trace_id}")).json()
    assert "message" not in found
    assert (found["status"], found["error"]["code"]) == (status, code)
    assert found["error"]["message"]


async def test_a_run_that_waits_names_its_approvals(
    client: Client, accounts: Accounts, store: ConversationStore
) -> None:
    request = ask_events(accounts, "json")
    await write(store, request, *wait(request.trace_id))
    found = (await client.get(f"/v1/chat/{request.trace_id}")).json()
    assert (found["status"], "error" in found) == ("waiting_for_approval", False)
    assert [each["tool"] for each in found["approvals"]] == ["cancel_order"]


async def test_a_result_has_tools_sources_and_warnings(
    client: Client, starter: Client, accounts: Accounts, store: ConversationStore, pool: Pool
) -> None:
    request = ask_events(accounts, "json")
    await write(store, request, *tell_story(request))
    found = (await client.get(f"/v1/chat/{request.trace_id}")).json()
    assert [(call["id"], call["is_error"]) for call in found["tool_calls"]] == [("c1", False), ("c2", False)]
    assert ([each["id"] for each in found["sources"]], found["warnings"][0]["subject"]) == (
        [SOURCE.id],
        "crm",
    )
    in_line = "a" * 31 + "1"
    await WaitingLine(pool, "w").join(request.conversation_id, in_line, AT, request.account_id)
    assert (await client.get(f"/v1/chat/{in_line}")).json()["status"] == "queued"
    for trace_id in (request.trace_id, in_line):
        check_problem(await starter.get(f"/v1/chat/{trace_id}"), 404, "not_found")
    check_problem(await client.get("/v1/chat/nonsense"), 404, "not_found")
