"""Keep-alive pings and time-outs of the gateway. The waits run side by side; each test awaits its own."""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from redis.asyncio import Redis

from bus.bus import Bus
from contracts import frames
from conversations.event_store.store import ConversationStore, open_store
from tests.bus.nats_server import NatsServer
from tests.gateway import stored
from tests.gateway.client import Client, accepted, check_problem, slow_socket
from tests.gateway.conftest import Accounts
from tests.gateway.process import GatewayProcess
from tests.gateway.worker import Worker
from tests.support.proxy import proxied

T = TypeVar("T")
NOBODY_TAKES = ("nobody", "nobody again", "nobody at all")


class Waits:
    """Begun together before the first test of the module."""

    def __init__(self) -> None:
        self._begun: dict[str, asyncio.Task[Any]] = {}

    def begin(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        self._begun[name] = asyncio.create_task(work)

    async def of(self, name: str) -> Any:
        return await self._begun[name]


@pytest.fixture(scope="module")
async def waits(
    http: httpx.AsyncClient,
    gateway: GatewayProcess,
    accounts: Accounts,
    worker: Worker,
    environ: dict[str, str],
    migrated_database_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Waits]:
    client = accounts.free.at(http, gateway)
    folder = tmp_path_factory.mktemp("without-nats")
    cut = tmp_path_factory.mktemp("cut-off")
    begun = Waits()
    async with open_store(migrated_database_url) as store:
        begun.begin("ping", keep_silent(client, worker))
        begun.begin("line", stand_in_line(client, worker))
        begun.begin("unheard line", stand_in_line_unheard(http, environ, accounts, worker, cut))
        for start, message in enumerate(NOBODY_TAKES):
            begun.begin(message, ask_nobody(client, worker, message, 2.0 * start))
        begun.begin("acceptance", accept_unheard(client, worker, store))
        begun.begin("end", end_unheard(client, worker, store))
        begun.begin("stuck", never_read(client, worker, gateway))
        begun.begin("nats", lose_nats(http, environ, accounts, store, folder))
        yield begun


async def timed(work: Coroutine[Any, Any, T]) -> tuple[T, float]:
    began = time.monotonic()
    return await work, time.monotonic() - began


async def keep_silent(client: Client, worker: Worker) -> tuple[list[dict[str, Any]], bytes]:
    """A worker that for 17 s only says that it lives."""
    async with accepted(client, worker, message="ping") as (turn, events):
        reading = asyncio.create_task(events.rest())
        for _ in range(17):
            await asyncio.sleep(1)
            await turn.say(frames.Alive(seq=turn.number(), attempt=1))
        await turn.answer_from_here("late")
        return await reading, events.bytes


async def stand_in_line(client: Client, worker: Worker) -> httpx.Response:
    waiting = asyncio.create_task(client.chat("line"))
    turn = await worker.next("line")
    await turn.say(frames.Queued(seq=0, attempt=0))
    done, _ = await asyncio.wait([waiting], timeout=17)
    assert not done
    await turn.answer("at last")
    return await waiting


async def stand_in_line_unheard(
    http: httpx.AsyncClient, environ: dict[str, str], accounts: Accounts, worker: Worker, folder: Path
) -> httpx.Response:
    """While the request gets its place in line, its gateway has no NATS."""
    async with proxied(environ["AGENTCHAT_NATS_URL"]) as (link, url):
        process = GatewayProcess(folder, {**environ, "AGENTCHAT_NATS_URL": url})
        await process.start()
        client = accounts.free.at(http, process)
        waiting = asyncio.create_task(client.chat("unheard line"))
        turn = await worker.next("unheard line")
        await link.set_mode("cut")
        await turn.say(frames.Queued(seq=0, attempt=turn.request.attempt))
        await turn.bus.ping()  # by then it is in TRACES
        await link.set_mode("pass")
        done, _ = await asyncio.wait([waiting], timeout=17)
        assert not done
        await turn.answer("at last")
        response = await waiting
        await process.stop()
    return response


async def ask_nobody(
    client: Client, worker: Worker, message: str, start_s: float
) -> tuple[httpx.Response, float, str]:
    await asyncio.sleep(start_s)
    waiting = asyncio.create_task(timed(client.chat(message)))
    turn = await worker.next(message)
    response, seconds = await waiting
    return response, seconds, turn.request.trace_id


async def accept_unheard(client: Client, worker: Worker, store: ConversationStore) -> httpx.Response:
    waiting = asyncio.create_task(client.chat("acceptance"))
    turn = await worker.next("acceptance")
    await stored.write(store, turn.request, *stored.ended(turn.request, "Hello"))
    return await waiting


async def end_unheard(
    client: Client, worker: Worker, store: ConversationStore
) -> tuple[list[dict[str, Any]], float]:
    async with accepted(client, worker, form=2, message="end") as (turn, events):
        await turn.delta("He")
        assert [(await events.next())["type"] for _ in range(2)] == ["start", "delta"]
        await stored.write(store, turn.request, *stored.ended(turn.request, "Hello"))
        return await timed(events.rest())


async def never_read(client: Client, worker: Worker, gateway: GatewayProcess) -> float:
    """Seconds until a reader who takes nothing is dropped."""
    stuck = await slow_socket(gateway.port, client.bytes(message="stuck"))
    turn = await (await worker.next("stuck")).accept()
    for _ in range(4000):
        await turn.delta("x" * 2000)
        await asyncio.sleep(0)
    _, seconds = await timed(gateway.line("request", trace_id=turn.request.trace_id))
    stuck.close()
    return seconds


async def lose_nats(
    http: httpx.AsyncClient,
    environ: dict[str, str],
    accounts: Accounts,
    store: ConversationStore,
    folder: Path,
) -> list[dict[str, Any]]:
    """A run whose NATS goes away for good while it is streamed."""
    server = NatsServer(folder / "nats")
    await server.start()
    process = GatewayProcess(folder, {**environ, "AGENTCHAT_NATS_URL": server.url})
    await process.start()
    client = accounts.free.at(http, process)
    async with Bus.connect(server.url, name="test-worker") as bus:
        worker = Worker(bus)
        consuming = asyncio.create_task(worker.run())
        async with accepted(client, worker) as (turn, events):
            await turn.delta("He")
            assert [(await events.next())["type"] for _ in range(2)] == ["meta", "delta"]
            await server.kill()
            await stored.write(store, turn.request, *stored.ended(turn.request, "Hello"))
            seen = await events.rest()
        consuming.cancel()
    await process.stop()
    return seen


async def test_a_silent_stream_is_kept_alive_by_pings(waits: Waits) -> None:
    seen, sent = await waits.of("ping")
    assert [event["type"] for event in seen] == ["meta", "delta", "done"]
    assert sent.count(b": ping\n\n") >= 1


async def test_a_queued_request_has_a_longer_timeout(waits: Waits) -> None:
    response = await waits.of("line")
    assert response.json()["message"]["content"] == "at last"


async def test_a_request_whose_queued_frame_was_lost_has_the_longer_timeout_too(waits: Waits) -> None:
    response = await waits.of("unheard line")
    assert response.json()["message"]["content"] == "at last"


async def test_a_request_that_nobody_takes_times_out_as_503_with_retry_after(waits: Waits) -> None:
    response, seconds, trace_id = await waits.of("nobody")
    problem = check_problem(response, 503, "overloaded")
    assert 14.5 < seconds < 55
    assert int(response.headers["retry-after"]) >= 1
    assert problem["trace_id"] == trace_id


async def test_a_request_that_may_begin_yet_keeps_its_slot(
    waits: Waits, accounts: Accounts, redis_url: str
) -> None:
    """Three are asked two seconds apart: Redis holds no slot of one that it was too slow to decide on."""
    traces = [(await waits.of(message))[2] for message in NOBODY_TAKES]
    async with Redis.from_url(redis_url, decode_responses=True) as redis:
        slots = f"limits:{{{accounts.free.account_id}}}:slots"
        held = [await redis.zscore(slots, trace_id) for trace_id in traces]
    assert any(score is not None for score in held)


async def test_an_acceptance_that_nobody_heard_is_found_in_the_log(waits: Waits) -> None:
    response = await waits.of("acceptance")
    assert response.status_code == 200
    assert response.json()["message"]["content"] == "Hello"


async def test_an_end_that_nobody_announced_is_found_in_the_log(waits: Waits) -> None:
    seen, seconds = await waits.of("end")
    assert seconds < 55
    assert seen[0] == {"type": "delta", "content": "llo"}
    assert seen[1]["message"]["content"] == "Hello"


async def test_without_nats_the_end_of_a_run_comes_from_the_log(waits: Waits) -> None:
    assert [event["type"] for event in await waits.of("nats")] == ["delta", "done"]


async def test_a_slow_client_that_never_reads_is_disconnected(waits: Waits) -> None:
    assert await waits.of("stuck") < 40
