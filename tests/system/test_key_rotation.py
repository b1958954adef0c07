"""A rotated key is dead at the next request, on every gateway (interface specification, section 3)."""

import asyncio
import contextlib
from collections import Counter

import httpx

from agentchat.administration import admin_accounts
from agentchat.administration import admin_keys as keys
from agentchat.administration.admin_values import NewAccount
from agentchat.administration.key_values import KeyRotation, NewKey
from agentchat.runtime.postgres import open_pool
from tests.administrator import administrator
from tests.gateway.sockets import Connection, open_connection
from tests.harness import RunningStack

ROTATIONS = 60


async def statuses_with(gateway: Connection, *keys: str) -> list[int]:
    """Of a request with each of them, sent together. 404 for a key that counts: there is no thread x."""
    for key in keys:
        gateway.send(f"GET /v1/conversations/x HTTP/1.1\r\nHost: x\r\nX-Api-Key: {key}\r\n\r\n".encode())
    answers = [await gateway.answer() for _ in keys]
    return [answer.status for answer in answers if answer is not None]


async def test_no_rotation_leaves_a_stale_key_on_two_gateways(stack: RunningStack) -> None:
    async with contextlib.AsyncExitStack() as opened:
        enter = opened.enter_async_context
        ports = [httpx.URL(url).port for url in stack.environment.gateway_urls]
        gateways = [await enter(open_connection(port or 0, seconds=140)) for port in ports]
        admin = administrator(await enter(open_pool(stack.environment.database_url)))
        account = await admin_accounts.create(admin, NewAccount(name="rotating", plan="Unlimited"))
        issued = await keys.create(admin, account.id, NewKey())
        before = [await statuses_with(gateway, issued.key) for gateway in gateways]
        assert before == [[404], [404]]
        seen: Counter[tuple[int, ...]] = Counter()
        for _ in range(ROTATIONS):
            old, issued = issued, await keys.rotate(admin, issued.id, KeyRotation())
            asked = [statuses_with(gateway, old.key, issued.key) for gateway in gateways]
            seen.update(tuple(statuses) for statuses in await asyncio.gather(*asked))
    assert seen.total() == 2 * ROTATIONS
    # 429 once the old keys are more wrong keys than an address may try.
    assert set(seen) <= {(401, 404), (429, 404)}
