"""A gateway of this release with a run that holds an event of a newer release's new tag."""

import asyncio
import json
import uuid

from agentchat.contracts import frames, ids, messages
from agentchat.contracts.events import ApprovalRequested
from agentchat.conversations.aggregate.rebuild_request import CANCELLED
from agentchat.conversations.event_store import mapper
from agentchat.conversations.event_store.conversation_store import ConversationStore
from tests.gateway import event_streams, stored
from tests.gateway.client import Client, check_problem
from tests.gateway.conftest import Accounts
from tests.gateway.worker import Worker

NEW = ("unheard_of.v9", b'{"type":"unheard_of.v9"}')


async def store_waiting(
    store: ConversationStore, accounts: Accounts, *more: tuple[str, bytes]
) -> tuple[messages.ChatRequested, str]:
    """A run whose approval this release knows, and what else it waits for: its request, the approval's id."""
    request = stored.request(accounts.free, message=uuid.uuid4().hex)
    asked = ApprovalRequested(
        trace_id=request.trace_id,
        at=stored.AT,
        approval_id=ids.make_id(),
        call_id="call",
        round=1,
        input_sha256="",
        expires_at=stored.AT,
        agent_id=request.agent_id,
        server="shop",
        tool="find",
    )
    await stored.write(store, request)
    await store.append_stored(request.conversation_id, 3, [*mapper.encode_pairs([asked]), *more])
    return request, asked.approval_id


async def test_what_another_gateway_may_be_able_to_read_is_asked_for_again(
    client: Client, store: ConversationStore, accounts: Accounts
) -> None:
    _, approval_id = await store_waiting(store, accounts, NEW)
    problem = check_problem(await client.get(f"/v1/approvals/{approval_id}"), 503, "overloaded")
    assert "newer release" in problem["detail"]


async def test_a_cancellation_of_a_run_that_may_wait_is_left_to_a_worker(
    client: Client, worker: Worker, store: ConversationStore, accounts: Accounts
) -> None:
    request, _ = await store_waiting(store, accounts, NEW)
    response = await client.post(f"/v1/chat/{request.trace_id}/cancel", content=b"", content_type=None)
    assert response.status_code == 202
    turn = await worker.next(request.message)
    assert turn.request.trace_id == request.trace_id
    assert turn.request.attempt == CANCELLED + 1


async def test_pause_of_newer_release_sends_follower_elsewhere(
    client: Client, worker: Worker, store: ConversationStore
) -> None:
    message = uuid.uuid4().hex
    store_waiting = asyncio.create_task(client.chat(message))
    turn = await worker.next(message)
    await stored.write(store, turn.request)
    await turn.accept()
    stream = await event_streams.open_events(client, turn.request.trace_id)
    await store.append_stored(turn.request.conversation_id, 3, [NEW])
    await turn.say(frames.Paused(seq=turn.number(), attempt=1))
    async with asyncio.timeout(20):
        check_problem(await store_waiting, 503, "overloaded")
        await stream.rest()
    place, last = event_streams.parse_stream(stream.bytes)[-1]
    assert (place, json.loads(last)["code"]) == (None, "overloaded")  # to go on from the event before
