"""Retries of one request at the OpenAI API, over two gateways and with a worker that the test plays."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from contracts import events, ids
from conversations.event_store.store import ConversationStore
from runtime.postgres import Connection
from tests.gateway.conftest import Accounts
from tests.gateway.process import GatewayProcess
from tests.gateway.stored import AT, complete, write
from tests.gateway.worker import Turn, Worker


class Caller:
    """A client that counts its tries as OpenAI's SDKs do; `key` is its name for the conversation."""

    def __init__(self, http: httpx.AsyncClient, urls: tuple[str, str], accounts: Accounts) -> None:
        self.http, self.urls = http, urls
        self.agent = accounts.free.agent
        self.headers = {"Authorization": f"Bearer {accounts.free.key}"}

    def ask(
        self, text: str, tried: int | None = 0, *, key: str | None = None, at: int = 0, **body: Any
    ) -> asyncio.Task[httpx.Response]:
        headers = dict(self.headers)
        if tried is not None:
            headers["x-stainless-retry-count"] = str(tried)
        if key is not None:
            headers["X-Conversation-Id"] = key
        asked = {"model": self.agent, "messages": [{"role": "user", "content": text}], **body}
        url = f"{self.urls[at]}/openai/v1/chat/completions"
        return asyncio.create_task(self.http.post(url, json=asked, headers=headers))


@pytest.fixture
def caller(
    http: httpx.AsyncClient, gateway: GatewayProcess, second_gateway: GatewayProcess, accounts: Accounts
) -> Caller:
    return Caller(http, (gateway.url, second_gateway.url), accounts)


async def _leave(asking: asyncio.Task[httpx.Response]) -> None:
    asking.cancel()
    await asyncio.wait([asking])


async def _answer(store: ConversationStore, turn: Turn, text: str = "Once.") -> str:
    """Begun in the log, answered, ended; its trace."""
    await write(store, turn.request)
    await turn.accept()
    await turn.delta(text)
    await complete(store, turn)
    return turn.request.trace_id


async def _noted(conn: Connection, trace: str) -> None:
    """Wait until the gateway has noted that it gave the whole answer: after its last byte."""
    query = "SELECT tried FROM idempotency_keys WHERE trace_id = %s"
    async with asyncio.timeout(40):
        while await (await conn.execute(query, [trace])).fetchone() != ("answered",):
            pass


def _trace(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    return response.headers["x-trace-id"]


@pytest.mark.parametrize("key", [None, "chat"])
async def test_a_retry_joins_an_abandoned_request_whose_run_had_not_begun(
    caller: Caller, worker: Worker, store: ConversationStore, key: str | None
) -> None:
    text = ids.new_id()
    first = caller.ask(text, key=key)
    turn = await worker.next(text)
    await _leave(first)
    again = caller.ask(text, 1, key=key, at=1)
    streamed = caller.ask(text, 1, key=key, at=1, stream=True)
    trace = await _answer(store, turn)
    response = await again
    assert _trace(response) == _trace(await streamed) == trace
    assert response.json()["choices"][0]["message"]["content"] == "Once."
    assert response.headers["x-conversation-id"] == turn.request.conversation_id
    assert worker.untaken(text) == 0


@pytest.mark.parametrize("key", [None, "chat"])
async def test_of_a_request_and_its_retry_at_once_one_runs(
    caller: Caller, worker: Worker, store: ConversationStore, key: str | None
) -> None:
    for _ in range(10):
        text = ids.new_id()
        both = [caller.ask(text, tried, key=key, at=tried) for tried in (0, 1)]
        turn = await worker.next(text)
        trace = await _answer(store, turn)
        assert {_trace(response) for response in await asyncio.gather(*both)} == {trace}
        assert worker.untaken(text) == 0


@pytest.mark.parametrize("key", [None, "chat"])
@pytest.mark.parametrize(
    "other",
    [
        {"messages": [{"role": "system", "content": "In French."}, {"role": "user", "content": "TEXT"}]},
        {"user": "somebody else"},
        {"temperature": 1},
    ],
)
async def test_a_retry_of_another_request_never_joins(
    caller: Caller, worker: Worker, store: ConversationStore, other: dict[str, Any], key: str | None
) -> None:
    text = ids.new_id()
    first = caller.ask(text, key=key)
    left = await worker.next(text)
    await _leave(first)
    again = caller.ask(text, 1, key=key, at=1, **json.loads(json.dumps(other).replace("TEXT", text)))
    own = await worker.next(text)
    await _answer(store, own)
    assert _trace(await again) == own.request.trace_id != left.request.trace_id


async def test_a_retry_never_joins_where_two_first_tries_were_equal(
    caller: Caller, worker: Worker, store: ConversationStore
) -> None:
    text = ids.new_id()
    tries = [caller.ask(text, at=at) for at in (0, 1)]
    turns = [await worker.next(text) for _ in tries]
    for asking in tries:
        await _leave(asking)
    again = caller.ask(text, 1)
    own = await worker.next(text)
    await _answer(store, own)
    assert _trace(await again) == own.request.trace_id
    assert own.request.trace_id not in {turn.request.trace_id for turn in turns}


async def test_what_was_answered_is_asked_again_by_a_first_try_and_joined_under_a_key_alone(
    caller: Caller, worker: Worker, store: ConversationStore, conn: Connection
) -> None:
    for key, joins in ((None, False), ("chat", True)):
        text, traces = ids.new_id(), []
        for _ in range(2):
            asking = caller.ask(text, key=key)
            traces.append(await _answer(store, await worker.next(text)))
            assert _trace(await asking) == traces[-1]
            await _noted(conn, traces[-1])
        assert len(set(traces)) == 2
        again = caller.ask(text, 1, key=key)
        if not joins:
            traces.append(await _answer(store, await worker.next(text)))
        assert _trace(await again) == traces[-1]


async def test_a_retry_of_what_failed_runs_and_of_what_was_refused_too(
    caller: Caller, worker: Worker, store: ConversationStore
) -> None:
    text = ids.new_id()
    asking = caller.ask(text)
    await (await worker.next(text)).refuse("conversation_busy")
    assert (await asking).status_code == 409
    again = caller.ask(text, 1)
    failing = await worker.next(text)
    failed = events.RunFailed(
        trace_id=failing.request.trace_id, at=AT, code="provider_error", message="It failed."
    )
    await write(store, failing.request, failed)
    await failing.accept()
    await failing.fail("provider_error")
    assert (await again).status_code == 502
    last = caller.ask(text, 2)
    trace = await _answer(store, await worker.next(text))
    assert _trace(await last) == trace


async def test_a_client_that_counts_no_tries_always_asks_again(
    caller: Caller, worker: Worker, store: ConversationStore
) -> None:
    text = ids.new_id()
    asking = [caller.ask(text, None, key="chat") for _ in range(2)]
    turns = [await worker.next(text) for _ in asking]
    traces = {await _answer(store, turn) for turn in turns}
    assert {_trace(response) for response in await asyncio.gather(*asking)} == traces


async def test_a_message_whose_run_failed_is_asked_again_where_it_was_asked(
    caller: Caller, worker: Worker, store: ConversationStore
) -> None:
    first, second = ids.new_id(), ids.new_id()
    asking = caller.ask(first, key="failing")
    turn = await worker.next(first)
    await _answer(store, turn, "One.")
    assert (await asking).status_code == 200
    said = [{"role": "user", "content": first}, {"role": "assistant", "content": "One."}]
    history = [*said, {"role": "user", "content": second}]
    for tried in (0, 1):
        asking = caller.ask(second, tried, key="failing", messages=history)
        failing = await worker.next(second)
        assert failing.request.conversation_id == turn.request.conversation_id
        assert failing.request.after is not None
        trace = failing.request.trace_id
        failed = events.RunFailed(trace_id=trace, at=AT, code="provider_overloaded", message="Busy.")
        await write(store, failing.request, failed)
        await failing.accept()
        await failing.fail("provider_overloaded")
        assert (await asking).status_code == 503
