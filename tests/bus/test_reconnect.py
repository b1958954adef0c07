"""Followers receive later what was published while their connection was away."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import nats
import pytest

from agentchat.bus import connection
from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import examples, frames, ids, messages, tool_messages
from tests.bus.nats_server import NatsServer
from tests.support.proxy import Proxy, run_proxy


@pytest.fixture
async def link(shared_nats: NatsServer) -> AsyncIterator[Proxy]:
    async with run_proxy(shared_nats.url) as (proxy, _):
        yield proxy


@pytest.fixture
async def cut_off(shared_nats: NatsServer, link: Proxy) -> AsyncIterator[Bus]:
    """A bus behind a link that the test cuts."""
    async with Bus.connect(link.through(shared_nats.url), name="cut-off") as bus:
        yield bus


async def cut_link(bus: Bus, link: Proxy) -> None:
    await link.set_mode("hold")
    async with asyncio.timeout(40):
        while bus._connection.client.is_connected:  # noqa: ASYNC110 - it tells only who reconnects
            await asyncio.sleep(0.01)


async def test_a_cancellation_during_a_reconnect_is_received(bus: Bus, cut_off: Bus, link: Proxy) -> None:
    got: asyncio.Queue[messages.CancelRequested] = asyncio.Queue()
    following = await cut_off.traces.follow_cancels(got.put_nowait)
    asked = messages.CancelRequested(trace_id=ids.make_id().replace("-", ""), account_id=examples.ACCOUNT)
    await cut_link(cut_off, link)
    await bus.traces.cancel(asked)
    await link.set_mode("pass")
    async with asyncio.timeout(40):
        while await got.get() != asked:
            pass
    await following.close()


async def test_end_of_run_lost_with_the_connection_is_resent(bus: Bus, cut_off: Bus, link: Proxy) -> None:
    trace_id, got = ids.make_id().replace("-", ""), asyncio.Queue[frames.Frame]()
    following = await bus.traces.follow_trace(trace_id, got.put_nowait)
    await bus.ping()  # the server knows of it now
    end = frames.Failed(seq=7, attempt=1, code="internal_error", message="")
    await link.set_mode("freeze")
    await cut_off.traces.publish_frame(trace_id, end)
    async with asyncio.timeout(40):
        while cut_off._connection.client.pending_data_size:  # noqa: ASYNC110 - it says nothing when it has sent
            await asyncio.sleep(0.01)
        await link.set_mode("hold")
        await link.set_mode("pass")
        assert await got.get() == end
    await following.close()


async def test_what_is_followed_for_a_while_during_an_outage_leaves_nothing(
    bus: Bus, cut_off: Bus, link: Proxy
) -> None:
    trace_ids = [ids.make_id().replace("-", "") for _ in range(3)]
    got: asyncio.Queue[frames.Frame] = asyncio.Queue()
    await cut_link(cut_off, link)
    for trace_id in trace_ids:
        await (await cut_off.traces.follow_trace(trace_id, got.put_nowait)).close()
    following = await cut_off.traces.follow_trace(trace_ids[0], got.put_nowait)
    await link.set_mode("pass")
    async with asyncio.timeout(40):
        await cut_off._connection.up.wait()
        while True:
            with contextlib.suppress(BusUnavailable):
                await cut_off.ping()
                break
    frame = frames.DeltaFrame(seq=1, attempt=1, round=1, text="x", offset=0)
    await bus.traces.publish_frame(trace_ids[0], frame)
    async with asyncio.timeout(40):
        assert await got.get() == frame
    await following.close()
    assert got.empty()


async def test_what_is_followed_no_more_is_not_read_back(bus: Bus, cut_off: Bus, link: Proxy) -> None:
    got: list[tool_messages.ToolFinished] = []
    trace_id = ids.make_id().replace("-", "")
    closed = await cut_off.traces.follow_tool_results(trace_id, got.append)
    open_one: asyncio.Queue[tool_messages.ToolFinished] = asyncio.Queue()
    following = await cut_off.traces.follow_tool_results(trace_id, open_one.put_nowait)
    await cut_link(cut_off, link)
    await closed.close()
    finished = tool_messages.ToolFinished(trace_id=trace_id, call_id="a", output="{}", is_error=False, ms=1)
    await bus.traces.finish_tool(finished)
    await link.set_mode("pass")
    async with asyncio.timeout(40):
        await open_one.get()
    await following.close()
    assert got == []


async def test_cancellation_is_found_once_nats_is_back(
    nats_server: NatsServer,
) -> None:
    asked = messages.CancelRequested(trace_id=ids.make_id().replace("-", ""), account_id=examples.ACCOUNT)
    got: asyncio.Queue[messages.CancelRequested] = asyncio.Queue()
    client = await nats.connect(nats_server.url)
    async with Bus.connect(nats_server.url, name="test") as bus:
        await bus.traces.cancel(asked)
        following = await bus.traces.follow_cancels(got.put_nowait)
        readable = (await client.jetstream().stream_info("CANCELS")).config
        await client.jetstream().update_stream(readable.evolve(allow_direct=False))
        with pytest.raises(BusUnavailable):
            await bus.traces.is_cancelled(asked.trace_id)
        assert got.empty()
        await client.jetstream().update_stream(readable)
        async with asyncio.timeout(40):
            assert await got.get() == asked
        await following.close()
    await client.close()


async def test_a_client_that_no_longer_tries_to_reconnect_is_lost(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_WATCH_SECONDS", 0.1)
    lost = asyncio.Event()
    async with Bus.connect(nats_server.url, name="test", on_lost=lost.set) as bus:
        client = bus._connection.client
        await nats_server.kill()
        async with asyncio.timeout(40):
            while not client.is_reconnecting:  # noqa: ASYNC110 - it reports only who reconnects
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.8)  # it is not lost while it tries
            assert not lost.is_set()
            assert client._reconnection_task is not None
            client._reconnection_task.cancel()
            await lost.wait()
