"""Wait for a state of a queue, as nats-server knows it."""

import asyncio
from collections.abc import Callable

import nats
from nats.js.api import ConsumerInfo

from agentchat.bus.stream_settings import CONSUMERS

_SECONDS = 40.0


async def wait_until_nobody_pulls(nats_url: str, stream: str) -> None:
    """Wait until no process asks for the queue's messages."""
    await _wait_for(nats_url, stream, lambda info: info.num_waiting == 0)


async def wait_for_undelivered(nats_url: str, stream: str, count: int) -> None:
    """Wait until the queue has so many messages that were never delivered."""
    await _wait_for(nats_url, stream, lambda info: info.num_pending == count)


async def wait_until_all_acknowledged(nats_url: str, stream: str) -> int:
    """Wait until every delivered message is acknowledged; return the number of deliveries."""
    info = await _wait_for(nats_url, stream, lambda info: info.num_ack_pending == 0)
    assert info.delivered is not None
    return info.delivered.consumer_seq


async def _wait_for(nats_url: str, stream: str, holds: Callable[[ConsumerInfo], bool]) -> ConsumerInfo:
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
