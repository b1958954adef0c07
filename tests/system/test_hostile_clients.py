"""A small crowd of hostile clients; `make hostile` has the large one."""

import asyncio
from urllib.parse import urlsplit

import psutil

from tests.chaos.crowd import HALF_A_HEAD, Crowd, chat
from tests.harness import RunningStack
from tests.system.calling import MakeAgent, text_of


async def test_live_streams_come_whole_next_to_a_crowd_of_which_nothing_stays(
    stack: RunningStack, make_agent: MakeAgent
) -> None:
    live = await make_agent("demo-load?deltas=40&delay_ms=20")
    loud = await make_agent("demo-echo?repeat=250&deltas=10&delay_ms=50", parameters={"max_tokens": 100_000})
    gateway, port = psutil.Process(stack.pid("gateway-1")), urlsplit(stack.environment.base_url).port or 0

    def of_clients() -> int:
        return sum(each.laddr[1:] == (port,) for each in gateway.net_connections())

    async def five() -> list[str]:
        return [text_of(each) for each in await asyncio.gather(*(live.stream("tell me") for _ in range(5)))]

    whole, before = await five(), of_clients()
    sent = chat(loud.headers["X-Api-Key"], loud.headers["X-Agent-Id"], "x" * 1000)
    crowds = [Crowd(port, sent), Crowd(port, HALF_A_HEAD), Crowd(port)]
    for crowd, count in zip(crowds, (20, 50, 200), strict=True):
        await crowd.grow(count)
        crowd.stop_reading()
    told, there = await five(), of_clients()
    for crowd in crowds:
        crowd.go()
    assert told == whole
    assert there >= before + sum(map(len, crowds))
    async with asyncio.timeout(30):
        while of_clients() > before:  # noqa: ASYNC110 - another process's sockets
            await asyncio.sleep(0.05)
