"""POST /v1/chat/{trace_id}/cancel: who may end which run, with a worker that the test plays."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import httpx
import pytest

from agentchat.bus.bus import Bus
from agentchat.contracts import events, messages
from agentchat.contracts.values import Usage
from agentchat.conversations.event_store.conversation_store import ConversationStore
from tests.gateway.client import Client, check_problem
from tests.gateway.stored import AT, add, has_ended, write
from tests.gateway.worker import Turn, Worker

Cancels = asyncio.Queue[messages.CancelRequested]


@pytest.fixture
async def cancels(fresh_nats_url: str) -> AsyncIterator[Cancels]:
    """The cancellations that workers hear of."""
    heard: asyncio.Queue[messages.CancelRequested] = asyncio.Queue()
    async with Bus.connect(fresh_nats_url, name="test-cancels") as bus:
        await bus.traces.follow_cancels(heard.put_nowait)
        yield heard


async def _cancel(client: Client, trace_id: str, **headers: str) -> httpx.Response:
    """With nothing but the key, as the address asks for no more."""
    return await client.send("POST", f"/v1/chat/{trace_id}/cancel", headers=headers)


async def wait_until_begun(
    client: Client, worker: Worker, store: ConversationStore
) -> tuple[Turn, "asyncio.Task[httpx.Response]"]:
    message = uuid.uuid4().hex
    waiting = asyncio.create_task(client.chat(message))
    turn = await worker.next(message)
    await write(store, turn.request)
    await turn.accept()
    return turn, waiting


async def test_a_running_run_is_asked_to_end(
    client: Client,
    worker: Worker,
    store: ConversationStore,
    cancels: Cancels,
) -> None:
    turn, waiting = await wait_until_begun(client, worker, store)
    trace_id = turn.request.trace_id
    for _ in range(2):
        response = await _cancel(client, trace_id)
        assert response.status_code == 202
        assert response.json() == {"trace_id": trace_id, "status": "cancelling"}
        heard = await asyncio.wait_for(cancels.get(), 5)
        assert heard.trace_id == trace_id
        assert heard.account_id == turn.request.account_id
    await add(store, turn.request, events.RunCancelled(trace_id=trace_id, at=AT, usage=Usage()))
    await turn.fail("cancelled")
    check_problem(await waiting, 409, "cancelled")
    check_problem(await _cancel(client, trace_id), 409, "run_ended")
    assert cancels.empty()


async def test_what_has_ended_or_is_not_the_accounts_is_refused(
    client: Client,
    starter: Client,
    worker: Worker,
    store: ConversationStore,
    cancels: Cancels,
) -> None:
    turn, waiting = await wait_until_begun(client, worker, store)
    trace_id = turn.request.trace_id
    foreign = check_problem(await _cancel(starter, trace_id), 404, "not_found")
    unknown = check_problem(await _cancel(client, uuid.uuid4().hex), 404, "not_found")
    assert foreign["detail"] == unknown["detail"]
    for malformed in ("x", trace_id.upper(), trace_id[:-1], "0" * 32, trace_id + "%00", "%C3%A4"):
        check_problem(await _cancel(client, malformed), 404, "not_found")
    for key in ({"X-Api-Key": ""}, {"X-Api-Key": "sk-ac-unknown"}):
        assert (await _cancel(client, trace_id, **key)).status_code == 401
    assert (await client.get(f"/v1/chat/{trace_id}/cancel")).status_code == 405
    await add(store, turn.request, *has_ended(turn.request, "Hello."))
    await turn.answer_from_here("Hello.")
    assert (await waiting).status_code == 200
    check_problem(await _cancel(client, trace_id), 409, "run_ended")
    assert cancels.empty()
