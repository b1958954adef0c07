"""A rotated key is dead at the next request, on every gateway (docs/specification.md 3)."""

import asyncio
import contextlib
from collections import Counter

import httpx
import pytest

from directory.administration import create_account, create_key, rotate_key
from ops.harness import RunningStack
from runtime.postgres import connection, open_pool
from tests.gateway.sockets import Connection, connected

ROTATIONS = 1000


async def statuses_with(gateway: Connection, *keys: str) -> list[int]:
    """Of a request with each of them, sent together. 404 for a key that counts: there is no thread x."""
    for key in keys:
        gateway.send(f"GET /v1/conversations/x HTTP/1.1\r\nHost: x\r\nX-Api-Key: {key}\r\n\r\n".encode())
    answers = [await gateway.answer() for _ in keys]
    return [answer.status for answer in answers if answer is not None]


@pytest.mark.requirement("AUTH-ROTATION")
async def test_a_thousand_rotations_leave_no_stale_key_on_two_gateways(stack: RunningStack) -> None:
    async with contextlib.AsyncExitStack() as opened:
        enter = opened.enter_async_context
        ports = [httpx.URL(url).port for url in stack.environment.gateway_urls]
        gateways = [await enter(connected(port or 0, seconds=55)) for port in ports]
        conn = await enter(connection(await enter(open_pool(stack.environment.database_url)), seconds=55))
        account = await create_account(conn, name="rotating", plan="Unlimited", actor="test")
        issued = await create_key(conn, account.account_id, actor="test")
        before = [await statuses_with(gateway, issued.key) for gateway in gateways]
        assert before == [[404], [404]]
        seen: Counter[tuple[int, ...]] = Counter()
        for _ in range(ROTATIONS):
            old, issued = issued, await rotate_key(conn, issued.key_id, actor="test")
            asked = [statuses_with(gateway, old.key, issued.key) for gateway in gateways]
            seen.update(tuple(statuses) for statuses in await asyncio.gather(*asked))
    assert seen == {(401, 404): 2 * ROTATIONS}
