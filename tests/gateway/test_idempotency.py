"""Idempotency-Key: a request that is retried, over two gateways and with a worker that the test plays."""

import asyncio
import signal

import httpx
import pytest

from agentchat.contracts import frames, ids
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.runtime.postgres import Connection
from tests.gateway.client import Client, check_problem
from tests.gateway.conftest import Accounts, StartProcess
from tests.gateway.stored import has_ended, write
from tests.gateway.worker import Worker


def add_key(client: Client, key: str) -> Client:
    """The same caller, with this key on each request."""
    again = Client(client.http, client.url, "", "")
    again.headers = {**client.headers, "Idempotency-Key": key}
    return again


async def find_claim(conn: Connection, key: str, seconds: float) -> None:
    """As if the claim on that key ended so many seconds from now."""
    await conn.execute(
        "UPDATE idempotency_keys SET claimed_until = clock_timestamp() + make_interval(secs => %s)"
        " WHERE key = encode(sha256(convert_to(account_id || ' ' || %s, 'UTF8')), 'hex')",
        [seconds, key],
    )


async def test_a_repeated_idempotency_key_joins_the_run_from_its_beginning(
    client: Client, elsewhere: Client, worker: Worker
) -> None:
    message = key = ids.make_id()
    opening = asyncio.create_task(add_key(client, key).open(message))
    turn = await (await worker.next(message)).accept()
    first = await opening
    await turn.delta("It ")
    assert [(await first.next())["type"] for _ in range(2)] == ["meta", "delta"]
    second = await add_key(elsewhere, f'"{key}"').open(message, form=2)
    assert (await second.next())["type"] == "start"
    assert (await second.next())["content"] == "It "
    waiting = asyncio.create_task(add_key(elsewhere, key).chat(message))
    await turn.delta("has shipped.")
    saved = await turn.complete()
    last = (await first.rest())[-1]
    assert last["type"] == "done"
    assert last["trace_id"] == turn.request.trace_id
    events_of_second = await second.rest()
    assert [event["type"] for event in events_of_second] == ["delta", "done"]
    assert events_of_second[-1]["message"]["content"] == "It has shipped."
    response = await waiting
    assert response.json()["message"]["id"] == saved.id
    traces = [first.response, second.response, response]
    assert {each.headers["x-trace-id"] for each in traces} == {turn.request.trace_id}
    assert worker.count_untaken(message) == 0


async def test_another_request_under_the_idempotency_key_conflicts(
    client: Client, elsewhere: Client, worker: Worker, accounts: Accounts, starter: Client
) -> None:
    message = key = ids.make_id()
    asking = asyncio.create_task(add_key(client, key).chat(message))
    turn = await worker.next(message)
    await turn.answer()
    assert (await asking).status_code == 200
    other_agent = add_key(Client(client.http, client.url, accounts.free.key, accounts.free.second_agent), key)
    for response in (
        await add_key(elsewhere, key).chat("another"),
        await add_key(elsewhere, key).chat(message, prompt="another"),
        await add_key(elsewhere, key).chat(message, conversation_id=turn.request.conversation_id),
        await other_agent.chat(message),
    ):
        document = check_problem(response, 409, "idempotency_conflict")
        assert document["trace_id"] != turn.request.trace_id
    written_otherwise = b'{ "conversation_id": null, "message": "%s" }' % message.encode()
    same = await add_key(client, key).http.post(
        f"{client.url}/v1/chat",
        content=written_otherwise,
        headers={**add_key(client, key).headers, "Content-Type": "application/json"},
    )
    assert same.headers["x-trace-id"] == turn.request.trace_id
    foreign = asyncio.create_task(add_key(starter, key).chat(message))
    theirs = await worker.next(message)
    await theirs.answer()
    assert (await foreign).headers["x-trace-id"] == theirs.request.trace_id != turn.request.trace_id


async def test_a_refused_request_frees_its_idempotency_key(
    client: Client, elsewhere: Client, worker: Worker
) -> None:
    message = key = ids.make_id()
    check_problem(await add_key(client, key).post(content=b"{}"), 400, "invalid_request")
    refused: list[str] = []

    async def refuse() -> None:
        """Who came too late to join has asked again, and hears the same."""
        while True:
            turn = await worker.next(message)
            refused.append(turn.request.trace_id)
            await turn.refuse("conversation_busy")

    refusing = asyncio.create_task(refuse())
    for response in await asyncio.gather(*(add_key(at, key).chat(message) for at in (client, elsewhere))):
        document = check_problem(response, 409, "conversation_busy")
        assert document["trace_id"] in refused
    refusing.cancel()
    asking = asyncio.create_task(add_key(elsewhere, key).chat(message, prompt="now another body"))
    turn = await worker.next(message)
    await turn.answer()
    assert (await asking).status_code == 200
    assert turn.request.trace_id not in refused


async def test_who_left_before_the_refusal_leaves_the_key_free(client: Client, worker: Worker) -> None:
    message = key = ids.make_id()
    asking = asyncio.create_task(add_key(client, key).chat(message))
    left = await worker.next(message)
    asking.cancel()
    await asyncio.wait([asking])
    await left.refuse("conversation_busy")
    async with asyncio.timeout(40):
        while await worker.bus.traces.read_frames(left.request.trace_id) == []:
            pass
    asking = asyncio.create_task(add_key(client, key).chat(message))
    turn = await worker.next(message)
    await turn.answer()
    assert (await asking).headers["x-trace-id"] == turn.request.trace_id != left.request.trace_id


@pytest.mark.slow
async def test_a_gateway_that_died_leaves_neither_a_hang_nor_a_second_run(
    start_process: StartProcess,
    accounts: Accounts,
    client: Client,
    elsewhere: Client,
    worker: Worker,
    conn: Connection,
) -> None:
    message = key = ids.make_id()
    dying = await start_process()
    at_dying = accounts.free.at(client.http, dying)
    asking = asyncio.create_task(add_key(at_dying, key).chat(message))
    published = await worker.next(message)
    dying.signal(signal.SIGKILL)
    with pytest.raises(httpx.RequestError):
        await asking
    await find_claim(conn, key, 1.0)  # of its 15 seconds
    asking = asyncio.create_task(add_key(client, key).chat(message))
    joining = asyncio.create_task(add_key(elsewhere, key).chat(message))
    again = await worker.next(message)
    assert again.request.trace_id == published.request.trace_id
    assert again.request.attempt == 2
    assert again.request.conversation_id == published.request.conversation_id
    assert again.request.deadline > published.request.deadline
    late = frames.Refused(seq=0, attempt=1, code="overloaded", message="The first came too late.")
    await again.say(late)
    await again.answer("Once.")
    for response in (await asking, await joining):
        assert response.json()["message"]["content"] == "Once."
        assert response.headers["x-trace-id"] == published.request.trace_id
    assert worker.count_untaken(message) == 0


@pytest.mark.parametrize("continued", [False, True])
async def test_a_request_that_began_while_nobody_waited_is_found(
    client: Client, worker: Worker, store: ConversationStore, conn: Connection, continued: bool
) -> None:
    thread = None
    if continued:
        asking = asyncio.create_task(client.chat(before := ids.make_id()))
        earlier = await worker.next(before)
        await write(store, earlier.request, *has_ended(earlier.request, "Before.", ids.make_id()))
        await earlier.answer("Before.")
        thread = (await asking).json()["conversation_id"]
    message = key = ids.make_id()
    asking = asyncio.create_task(add_key(client, key).chat(message, conversation_id=thread))
    turn = await worker.next(message)
    asking.cancel()
    await asyncio.wait([asking])
    await write(store, turn.request, *has_ended(turn.request, "Begun.", ids.make_id()))
    await find_claim(conn, key, 0.0)
    response = await add_key(client, key).chat(message, conversation_id=thread)
    assert response.json()["message"]["content"] == "Begun."
    assert response.headers["x-trace-id"] == turn.request.trace_id
    told = await (await add_key(client, key).open(message, conversation_id=thread)).rest()
    assert [event["type"] for event in told] == ["meta", "delta", "done"]
    assert worker.count_untaken(message) == 0
    await turn.answer("Begun.")  # the request that was left waits for it, and the gateway's end for that
