"""Mutated bytes on plain sockets: whatever is sent, what comes back is HTTP, in order, and never a 5xx."""

import asyncio
import random

from tests.fuzz.schemathesis_run import Target
from tests.gateway.sockets import PROBE, Connection, connected
from tests.gateway.test_raw_http import BROKEN, LAST, READ, UNSENT, with_keys

_AT_ONCE = 100
_PATIENCE_SECONDS = 0.5
_MOST_BYTES = 4096
_SPICE = (
    b"\r\n",
    b"\n",
    b"\r",
    b"\x00",
    b" ",
    b"\t",
    b":",
    b"0",
    b"-",
    b"\xff",
    b"chunked",
    b"Content-Length: 5\r\n",
)


async def fuzz_raw(target: Target, cases: int, seed: int) -> list[str]:
    """What was found, in words with the bytes that did it."""
    chance = random.Random(seed)
    port = int(target.base_url.rsplit(":", 1)[1])
    keyed = {
        b"KEYS": f"X-Api-Key: {target.api_key}\r\nX-Agent-Id: {target.agent_id}\r\n"
        "Content-Type: application/json\r\n".encode(),
        b"KEY": f"X-Api-Key: {target.api_key}\r\n".encode(),
        b"AGENT": f"X-Agent-Id: {target.agent_id}\r\n".encode(),
    }
    plain = [*BROKEN.values(), *(data for data, _ in (READ | LAST | UNSENT).values())]
    seeds = [whole for whole in (with_keys(data, keyed) for data in plain) if len(whole) < _MOST_BYTES]
    found: list[str] = []
    for _ in range(0, cases, _AT_ONCE):
        batch = [_mutated(chance, seeds) for _ in range(_AT_ONCE)]
        outcomes = await asyncio.gather(*(_try(port, data) for data in batch))
        found += [f"{said}: {data!r}" for said, data in zip(outcomes, batch, strict=True) if said]
    return found


def _mutated(chance: random.Random, seeds: list[bytes]) -> bytes:
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.randrange(1, 5)):
        place = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0:
                data[place:place] = chance.choice(_SPICE)
            case 1:
                del data[place : place + chance.randrange(1, 12)]
            case 2:
                data[place : place + 1] = bytes([chance.randrange(256)])
            case 3:
                data[place:place] = data[place : place + chance.randrange(1, 40)]
            case _:
                other = chance.choice(seeds)
                data[place:] = other[chance.randrange(len(other)) :]
    return bytes(data)


async def _try(port: int, data: bytes) -> str:
    """What is wrong with the answers to `data`; "" where nothing is."""
    async with connected(port, seconds=30) as connection:
        connection.send(data + PROBE)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await _read(connection, heading=data.lstrip().startswith(b"HEAD"))
        except TimeoutError:
            return ""  # it waits for the rest of a request
        except ConnectionError:
            return ""  # closed on bytes that came too late


async def _read(connection: Connection, *, heading: bool) -> str:
    try:
        answers = await connection.answers(head=heading)
    except (AssertionError, KeyError, ValueError, asyncio.IncompleteReadError) as error:
        return f"no HTTP: {error!r}"
    wrong = [answer.status for answer in answers if answer.status >= 500]
    return f"answers {wrong}" if wrong else ""
