"""What nats-server knows of a queue of this system, for tests that have to wait for it."""

import asyncio
from collections.abc import Callable

import nats
from nats.js.api import ConsumerInfo

from agentchat.bus.streams import CONSUMERS

_SECONDS = 40.0


async def until_nobody_pulls(nats_url: str, stream: str) -> None:
    """Until no process asks for the queue's messages."""
    await _until(nats_url, stream, lambda info: info.num_waiting == 0)


async def until_undelivered(nats_url: str, stream: str, count: int) -> None:
    """Until the queue has so many messages that no process has been given."""
    await _until(nats_url, stream, lambda info: info.num_pending == count)


async def until_all_acknowledged(nats_url: str, stream: str) -> int:
    """Until no delivered message waits for its acknowledgement; returns how many deliveries there were."""
    info = await _until(nats_url, stream, lambda info: info.num_ack_pending == 0)
    assert info.delivered is not None
    return info.delivered.consumer_seq


async def _until(nats_url: str, stream: str, holds: Callable[[ConsumerInfo], bool]) -> ConsumerInfo:
    client = await nats.connect(nats_url)
    try:
        jetstream, name = client.jetstream(), CONSUMERS[stream]
        async with asyncio.timeout(_SECONDS):
            while True:
                info: ConsumerInfo = await jetstream.consumer_info(stream, name)
                if holds(info):
                    return info
                await asyncio.sleep(0.02)
    finally:
        await client.close()
