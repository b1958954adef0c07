"""What a gateway reads of the log for a run: its own events, whatever its conversation holds next to them."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from msgspec.structs import replace

from agentchat.contracts import ids
from agentchat.contracts.messages import ChatRequested
from agentchat.conversations.event_store.store import open_store
from agentchat.runtime.postgres import acquire_connection, open_pool
from tests.gateway.client import Client, check_problem
from tests.gateway.conftest import Accounts, StartGateway
from tests.gateway.event_streams import ask_events
from tests.gateway.stored import has_ended, write
from tests.gateway.test_idempotency import find_claim
from tests.gateway.worker import Worker
from tests.support.proxy import Proxy, run_proxy

_LARGE = "x" * 200_000
_FEW_BYTES = 50_000


@pytest.fixture
async def proxy(migrated_database_url: str) -> AsyncIterator[Proxy]:
    async with run_proxy(migrated_database_url) as (proxy, _):
        yield proxy


@pytest.fixture
async def proxied_client(
    proxy: Proxy,
    migrated_database_url: str,
    start_gateway: StartGateway,
    accounts: Accounts,
    http: httpx.AsyncClient,
) -> Client:
    """A caller whose requests carry an Idempotency-Key, at a gateway whose Postgres is behind the proxy."""
    process = await start_gateway(AGENTCHAT_DATABASE_URL=proxy.through(migrated_database_url))
    client = accounts.free.at(http, process)
    client.headers["Idempotency-Key"] = ids.make_id()
    return client


async def grow(database_url: str, request: ChatRequested) -> None:
    """The run of this request ends, and four large ones follow it in its conversation."""
    async with open_store(database_url) as store:
        await write(store, request, *has_ended(request, "Hello."))
        for _ in range(4):
            later = replace(request, trace_id=ids.make_id().replace("-", ""), message=_LARGE)
            await write(store, later, *has_ended(later, _LARGE))


async def test_repeat_cancel_and_reread_skip_later_events(
    proxied_client: Client, worker: Worker, proxy: Proxy, migrated_database_url: str
) -> None:
    message = ids.make_id()
    asking = asyncio.create_task(proxied_client.chat(message))
    turn = await worker.next(message)
    await turn.answer("Hello.")
    assert (await asking).status_code == 200
    await grow(migrated_database_url, turn.request)
    trace_id = turn.request.trace_id
    before = proxy.received
    repeated = await proxied_client.chat(message)
    assert repeated.json()["message"]["content"] == "Hello."
    assert repeated.headers["x-trace-id"] == trace_id
    check_problem(await proxied_client.post(f"/v1/chat/{trace_id}/cancel", content=b""), 409, "run_ended")
    told = await proxied_client.get(f"/v1/chat/{trace_id}/events")
    assert b"Hello." in told.content
    assert 0 < proxy.received - before < _FEW_BYTES


async def test_republished_request_skips_earlier_events(
    proxied_client: Client, worker: Worker, proxy: Proxy, accounts: Accounts, migrated_database_url: str
) -> None:
    thread = ask_events(accounts)
    await grow(migrated_database_url, thread)
    message, before = ids.make_id(), proxy.received
    leaving = asyncio.create_task(proxied_client.chat(message, conversation_id=thread.conversation_id))
    await worker.next(message)  # and is gone
    leaving.cancel()
    async with open_pool(migrated_database_url) as pool, acquire_connection(pool) as conn:
        await find_claim(conn, proxied_client.headers["Idempotency-Key"], 0.0)
    asking = asyncio.create_task(proxied_client.chat(message, conversation_id=thread.conversation_id))
    again = await worker.next(message)
    assert again.request.attempt == 2
    await again.answer("Hello.")
    assert (await asking).json()["message"]["content"] == "Hello."
    assert 0 < proxy.received - before < _FEW_BYTES
