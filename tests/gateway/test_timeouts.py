"""Keep-alive pings and time-outs of a gateway whose times are seconds."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from redis.asyncio import Redis

from agentchat.bus.bus import Bus
from agentchat.contracts import frames
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.gateway.runs import event_stream, follow_frames, request_hash, submit_request
from agentchat.runtime import listening_socket, metrics
from tests.bus.nats_server import NatsServer
from tests.gateway import stored
from tests.gateway.client import Client, check_problem, is_accepted, slow_socket
from tests.gateway.conftest import Accounts
from tests.gateway.embedded import run_embedded_gateway
from tests.gateway.worker import Worker
from tests.support.embedded_service import EmbeddedService
from tests.support.proxy import run_proxy

ACCEPT_SECONDS = 2.0


@pytest.fixture(scope="module")
def hurry() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as times:
        times.setattr(event_stream, "PING_SECONDS", 1.0)
        times.setattr(follow_frames, "SILENCE_SECONDS", 1.0)
        for module in (submit_request, request_hash):
            times.setattr(module, "ACCEPT_SECONDS", ACCEPT_SECONDS)
        times.setattr(listening_socket, "_USER_TIMEOUT_MS", 2_000)
        yield


@pytest.fixture(scope="module")
async def gateway(hurry: None, environ: dict[str, str]) -> AsyncIterator[EmbeddedService]:
    async with run_embedded_gateway(environ) as running:
        yield running


async def wait_past_acceptance(waiting: "asyncio.Task[httpx.Response]") -> None:
    done, _ = await asyncio.wait([waiting], timeout=ACCEPT_SECONDS + 1.0)
    assert not done


async def test_a_silent_stream_is_kept_alive_by_pings(client: Client, worker: Worker) -> None:
    async with is_accepted(client, worker, message="ping") as (turn, events):
        reading = asyncio.create_task(events.rest())
        for _ in range(3):
            await asyncio.wait([reading], timeout=1.0)
            await turn.say(frames.Alive(seq=turn.number(), attempt=1))
        await turn.answer_from_here("late")
        assert [event["type"] for event in await reading] == ["meta", "delta", "done"]
        assert events.bytes.count(b": ping\n\n") >= 1


async def test_a_queued_request_has_a_longer_timeout(client: Client, worker: Worker) -> None:
    waiting = asyncio.create_task(client.chat("line"))
    turn = await worker.next("line")
    await turn.say(frames.Queued(seq=0, attempt=0))
    await wait_past_acceptance(waiting)
    await turn.answer("at last")
    assert (await waiting).json()["message"]["content"] == "at last"


async def test_lost_queued_frame_still_gives_the_longer_timeout(
    http: httpx.AsyncClient, environ: dict[str, str], accounts: Accounts, worker: Worker, hurry: None
) -> None:
    """While the request gets its place in line, its gateway has no NATS."""
    async with (
        run_proxy(environ["AGENTCHAT_NATS_URL"]) as (link, url),
        run_embedded_gateway({**environ, "AGENTCHAT_NATS_URL": url}) as cut_off,
    ):
        waiting = asyncio.create_task(accounts.free.at(http, cut_off).chat("unheard line"))
        turn = await worker.next("unheard line")
        await link.set_mode("cut")
        await turn.say(frames.Queued(seq=0, attempt=turn.request.attempt))
        await turn.bus.ping()  # by then it is in TRACES
        await link.set_mode("pass")
        await wait_past_acceptance(waiting)
        await turn.answer("at last")
        assert (await waiting).json()["message"]["content"] == "at last"


async def test_a_request_without_a_worker_is_503_and_keeps_its_slot(
    client: Client, worker: Worker, accounts: Accounts, redis_url: str
) -> None:
    """It may begin yet. Three are asked: Redis holds no slot of one that it was too slow to decide on."""
    began = time.monotonic()
    asking = [asyncio.create_task(client.chat(f"nobody {number}")) for number in range(3)]
    traces = [(await worker.next(f"nobody {number}")).request.trace_id for number in range(3)]
    responses = await asyncio.gather(*asking)
    assert ACCEPT_SECONDS - 0.5 < time.monotonic() - began < 40
    for response, trace_id in zip(responses, traces, strict=True):
        problem = check_problem(response, 503, "overloaded")
        assert int(response.headers["retry-after"]) >= 1
        assert problem["trace_id"] == trace_id
    async with Redis.from_url(redis_url, decode_responses=True) as redis:
        slots = f"limits:{{{accounts.free.account_id}}}:slots"
        held = [await redis.zscore(slots, trace_id) for trace_id in traces]
    assert any(score is not None for score in held)


async def test_a_missed_acceptance_is_found_in_the_log(
    client: Client, worker: Worker, store: ConversationStore
) -> None:
    waiting = asyncio.create_task(client.chat("acceptance"))
    turn = await worker.next("acceptance")
    await stored.write(store, turn.request, *stored.has_ended(turn.request, "Hello"))
    response = await waiting
    assert response.status_code == 200
    assert response.json()["message"]["content"] == "Hello"


async def test_an_unannounced_end_is_found_in_the_log(
    client: Client, worker: Worker, store: ConversationStore
) -> None:
    async with is_accepted(client, worker, form=2, message="end") as (turn, events):
        await turn.delta("He")
        assert [(await events.next())["type"] for _ in range(2)] == ["start", "delta"]
        await stored.write(store, turn.request, *stored.has_ended(turn.request, "Hello"))
        seen = await events.rest()
    assert seen[0] == {"type": "delta", "content": "llo"}
    assert seen[1]["message"]["content"] == "Hello"


@pytest.mark.slow
async def test_without_nats_the_end_of_a_run_comes_from_the_log(
    http: httpx.AsyncClient,
    environ: dict[str, str],
    accounts: Accounts,
    store: ConversationStore,
    tmp_path: Path,
    hurry: None,
) -> None:
    server = NatsServer(tmp_path)
    await server.start()
    async with (
        Bus.connect(server.url, name="test-worker") as bus,
        run_embedded_gateway({**environ, "AGENTCHAT_NATS_URL": server.url}) as alone,
    ):
        worker = Worker(bus)
        consuming = asyncio.create_task(worker.run())
        async with is_accepted(accounts.free.at(http, alone), worker) as (turn, events):
            await turn.delta("He")
            assert [(await events.next())["type"] for _ in range(2)] == ["meta", "delta"]
            await server.kill()
            await stored.write(store, turn.request, *stored.has_ended(turn.request, "Hello"))
            assert [event["type"] for event in await events.rest()] == ["delta", "done"]
        consuming.cancel()
        await server.start()
    await server.kill()


async def test_a_client_that_never_reads_is_disconnected(
    client: Client, worker: Worker, gateway: EmbeddedService
) -> None:
    stuck = await slow_socket(gateway.port, client.bytes(message="stuck"))
    turn = await (await worker.next("stuck")).accept()
    for _ in range(400):
        await turn.delta("x" * 20_000)
        await asyncio.sleep(0)
    async with asyncio.timeout(40):
        while open_streams() > 0:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.05)
    stuck.close()


def open_streams() -> float:
    (family,) = metrics.OPEN_STREAMS.collect()
    return family.samples[0].value
