"""Clients that talk for as long as a fail-over takes."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping, Sequence

from tests.chaos.load import Load
from tests.chaos.plan import make_rush, make_talk
from tests.chaos.records import History
from tests.chaos.rig import Rig

_RAMP_SECONDS = 10.0
_RUSH_EVERY = 25
_LAST_SECONDS = 120.0


@contextlib.asynccontextmanager
async def run_clients(
    rig: Rig, load: Load, history: History, mixes: Sequence[Mapping[str, int]]
) -> AsyncIterator[None]:
    """Run one client for each mix of agents while the block runs.

    The clients start within ten seconds. After the block each finishes its conversation.

    Raises:
        TimeoutError: A client did not finish within two minutes.
    """
    stop = asyncio.Event()

    async def talk(chance: random.Random, mix: Mapping[str, int]) -> None:
        await asyncio.sleep(chance.uniform(0, _RAMP_SECONDS))
        conversations = 0
        while not stop.is_set():
            is_rush = "short" in mix and conversations % _RUSH_EVERY == 0
            await load.run([make_rush(chance, 0) if is_rush else make_talk(chance, 0, mix)])
            conversations += 1

    chances = [random.Random(f"{history.seed} {number}") for number in range(len(mixes))]
    clients = [asyncio.create_task(talk(*each)) for each in zip(chances, mixes, strict=True)]
    try:
        await asyncio.sleep(_RAMP_SECONDS)
        yield
        history.final.healed = rig.clock.now()
        stop.set()
        async with asyncio.timeout(_LAST_SECONDS):
            await asyncio.gather(*clients)
    finally:
        for task in clients:
            task.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
