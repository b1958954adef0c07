"""Clients that are slow or disconnect, gateways that drain and shut down, and what is logged of requests."""

import asyncio
import time

import httpx
import pytest

from agentchat.runtime.postgres import Pool, acquire_connection
from tests.blocking import until_blocked_by
from tests.gateway.client import Client, check_problem, is_accepted, slow_socket
from tests.gateway.conftest import Accounts, StartGateway
from tests.gateway.embedded import GatewayProcess
from tests.gateway.sockets import open_connection
from tests.gateway.worker import Worker
from tests.support.embedded_service import EmbeddedService


@pytest.fixture(scope="module")
def gateway(gateway_as_a_process: GatewayProcess) -> GatewayProcess:
    return gateway_as_a_process


async def test_a_run_continues_after_its_client_disconnects(
    client: Client, worker: Worker, gateway: GatewayProcess
) -> None:
    for path in ("/v1/chat/stream", "/v1/chat"):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(client.bytes(path))
        turn = await (await worker.next()).accept()
        await turn.delta("Hel")
        if path.endswith("stream"):
            async with asyncio.timeout(20):
                await reader.readuntil(b"Hel")
        writer.transport.abort()
        async with asyncio.timeout(20):
            line = await gateway.line("request", trace_id=turn.request.trace_id)
        assert line["path"] == path
        assert line["status"] == (499 if path == "/v1/chat" else 200)
        await turn.delta("lo")
        await turn.complete()  # nobody listens, and nobody minds
    assert "ASGI" not in gateway.text()
    assert "request_failed" not in gateway.text()


async def test_a_slow_client_gets_everything_and_delays_nobody(
    client: Client, worker: Worker, gateway: GatewayProcess
) -> None:
    loop = asyncio.get_running_loop()
    slow = await slow_socket(gateway.port, client.bytes())
    slow_turn = await (await worker.next()).accept()
    async with is_accepted(client, worker) as (turn, events):
        # Few and large: who takes nothing for 15 s is disconnected, also by a busy machine.
        for _ in range(60):
            await slow_turn.delta("x" * 100_000)
            await slow_turn.bus.ping()  # frames that the connection has no room for are dropped
        await turn.answer_from_here("quick")
        assert (await events.rest())[-1]["type"] == "done"  # nothing of the slow one's has been read yet
    await slow_turn.complete()
    got = bytearray()
    async with asyncio.timeout(30):
        while not got.endswith(b"0\r\n\r\n"):
            got += await loop.sock_recv(slow, 1 << 20)
    slow.close()
    assert got.partition(b"\r\n\r\n")[2].count(b"x") == 6_000_000
    assert got.count(b'"type":"delta"') < 60
    assert got.count(b'"type":"done"') == 1


async def test_shutdown_drains_open_requests_in_time(
    http: httpx.AsyncClient, start_gateway: StartGateway, accounts: Accounts, worker: Worker
) -> None:
    gateway = await start_gateway({"runs.follow_frames.STREAMS_DRAIN_SECONDS": 2.0})
    client = accounts.free.at(http, gateway)
    json_call = asyncio.create_task(client.chat())
    json_turn = await (await worker.next()).accept()
    async with (
        is_accepted(client, worker) as (ending, ending_events),
        is_accepted(client, worker) as (turn, events),
    ):
        gateway.stop.set()
        began = time.monotonic()
        await wait_until_refusing(gateway)
        await ending.answer_from_here("just in time")
        assert (await ending_events.rest())[-1]["type"] == "done"
        await turn.delta("Hel")
        seen = await events.rest()
        assert time.monotonic() - began > 1.5
        assert [event["type"] for event in seen] == ["meta", "delta", "error"]
        assert seen[-1]["code"] == "server_shutdown"
        shown = (await json_call).json()
        assert (shown["status"], shown["code"]) == (503, "server_shutdown")
        assert shown["conversation_id"] == json_turn.request.conversation_id
        await asyncio.wait_for(gateway.serving, 20)
    assert json_turn.request.message == "hi"


async def wait_until_refusing(gateway: EmbeddedService) -> None:
    """Return when the gateway takes no connections any more: by then it knows that it is to stop."""
    async with asyncio.timeout(20):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            except ConnectionError:
                return
            writer.close()
            await asyncio.sleep(0.02)


async def test_shutdown_refuses_a_request_whose_body_is_on_its_way(
    start_gateway: StartGateway, http: httpx.AsyncClient, accounts: Accounts, worker: Worker
) -> None:
    gateway = await start_gateway({"access.checks.BODY_SECONDS": 2.0})
    client = accounts.free.at(http, gateway)
    async with open_connection(gateway.port) as first, open_connection(gateway.port) as second:
        for sending, path in ((first, "/v1/chat"), (second, "/v1/chat/stream")):
            whole = client.bytes(path, message="slow").replace(b"Host: x", b"Host: x\r\nExpect: 100-continue")
            sending.send(whole[:-4])
            going_on = await sending.answer()
            assert going_on is not None
            assert going_on.status == 100  # the body is being read
        gateway.stop.set()
        for sending in (first, second):
            refused = await sending.answer()
            assert refused is not None
            assert refused.status == 503
            assert refused.check_refusal()["code"] == "server_shutdown"
            sending.send(b'w"}\r\n')
    await asyncio.wait_for(gateway.serving, 20)
    assert worker.count_untaken("slow") == 0


async def test_shutdown_begins_nothing_and_frees_the_idempotency_key(
    http: httpx.AsyncClient, start_gateway: StartGateway, accounts: Accounts, worker: Worker, pool: Pool
) -> None:
    gateway = await start_gateway()
    client = accounts.free.at(http, gateway)
    body = b'{"message":"claimed"}'
    async with acquire_connection(pool, seconds=20) as conn:
        async with conn.transaction():
            await conn.execute("LOCK TABLE idempotency_keys IN SHARE MODE")  # readable, and no more
            asked = asyncio.create_task(client.post(content=body, idempotency_key="stopping"))
            await until_blocked_by(conn)
            gateway.stop.set()
            await wait_until_refusing(gateway)
        check_problem(await asked, 503, "server_shutdown")
        kept = await conn.execute("SELECT FROM idempotency_keys WHERE key = 'stopping'")
        assert await kept.fetchone() is None
    await asyncio.wait_for(gateway.serving, 20)
    assert worker.count_untaken("claimed") == 0


async def test_shutdown_of_an_idle_gateway_is_immediate(start_gateway: StartGateway) -> None:
    gateway = await start_gateway()
    gateway.stop.set()
    await asyncio.wait_for(gateway.serving, 6)  # with something open it waits for 8 s


async def test_a_request_is_one_line_without_secrets(client: Client, gateway: GatewayProcess) -> None:
    response = await client.post(content=b'{"message":"hi","secretword":1}')
    line = await gateway.line("request", trace_id=response.headers["x-trace-id"])
    assert line["method"] == "POST"
    assert line["path"] == "/v1/chat"
    assert line["status"] == 400
    assert line["ms"] >= 0
    assert line["account_id"]
    assert client.headers["X-Api-Key"][:20] not in gateway.text()
    assert "secretword" not in gateway.text()


async def test_paths_are_logged_short_and_harmless(client: Client, gateway: GatewayProcess) -> None:
    response = await client.get("/nowhere%C2%9B31m%E2%80%AE%C2%85%7F" + "a" * 60_000)
    line = await gateway.line("request", trace_id=response.headers["x-trace-id"])
    assert line["path"] == "/nowhere\x9b31m\u202e\x85\x7f" + "a" * 241 + "…"
    (written,) = [each for each in gateway.text().split("\n") if response.headers["x-trace-id"] in each]
    assert "/nowhere\\u009b31m\\u202e\\u0085\\u007faaa" in written
