"""Provisioning of a NATS server that has streams already: an older version's, or an operator's settings."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
from nats.js import JetStreamContext
from nats.js.api import StreamConfig

from agentchat.bus.bus import Bus
from agentchat.bus.stream_settings import QUEUES_BYTES, STREAMS
from agentchat.contracts import examples, frames, ids, messages, tool_messages
from tests.bus.nats_server import NatsServer

MIB = 1024 * 1024
CONFIGURATION = Path(__file__).resolve().parents[2] / "deploy" / "nats.conf"


@asynccontextmanager
async def connect_operator(server: NatsServer) -> AsyncIterator[JetStreamContext]:
    client = await nats.connect(server.url)
    try:
        yield client.jetstream()
    finally:
        await client.close()


async def read_config(jetstream: JetStreamContext, stream: str) -> StreamConfig:
    return (await jetstream.stream_info(stream)).config


def build_result() -> tool_messages.ToolFinished:
    trace_id = ids.make_id().replace("-", "")
    return tool_messages.ToolFinished(trace_id=trace_id, call_id="call-1", output="{}", is_error=False, ms=1)


async def test_full_trace_stream_leaves_results_and_cancels_alone(
    nats_server: NatsServer,
) -> None:
    result = build_result()
    async with Bus.connect(nats_server.url, name="test"), connect_operator(nats_server) as jetstream:
        small = await read_config(jetstream, "TRACES")
        small.max_bytes = 256 * 1024
        await jetstream.update_stream(small)
    async with Bus.connect(nats_server.url, name="test") as bus:
        await bus.traces.finish_tool(result)
        await bus.traces.cancel(
            messages.CancelRequested(trace_id=result.trace_id, account_id=examples.ACCOUNT)
        )
        flushing = ids.make_id().replace("-", "")
        for seq in range(1, 11):
            frame = frames.DeltaFrame(seq=seq, attempt=1, round=1, text="x" * 60_000, offset=0)
            await bus.traces.publish_frame(flushing, frame)
        assert len(await bus.traces.read_frames(flushing)) < 10, "TRACES was full"
        assert await bus.traces.read_tool_results(result.trace_id) == {result.call_id: result}
        assert await bus.traces.is_cancelled(result.trace_id)


async def test_provisioning_restores_ours_and_keeps_operators_settings(
    nats_server: NatsServer,
) -> None:
    async with Bus.connect(nats_server.url, name="test"), connect_operator(nats_server) as jetstream:
        changed = await read_config(jetstream, "EVENTS")
        changed.max_bytes = 3 * MIB
        changed.description = "kept by the operator"
        changed.allow_direct = False
        await jetstream.update_stream(changed)
    async with Bus.connect(nats_server.url, name="test"), connect_operator(nats_server) as jetstream:
        found = await read_config(jetstream, "EVENTS")
    assert found.allow_direct, "readers need it"
    assert (found.max_bytes, found.description) == (3 * MIB, "kept by the operator")


def test_bounded_streams_leave_room_for_the_queues() -> None:
    configured = re.search(r"max_file_store: (\d+)GB", CONFIGURATION.read_text())
    assert configured is not None
    bounded = [stream.max_bytes or 0 for stream in STREAMS if stream.storage == "file"]
    reserved = sum(size for size in bounded if size > 0)
    assert reserved + QUEUES_BYTES <= int(configured[1]) * 1024 * MIB
    unbounded = {stream.name for stream in STREAMS if stream.max_bytes == -1}
    assert unbounded == {"REQUESTS", "TOOLS", "ADVISORIES"}
