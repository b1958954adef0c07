"""A name that cannot be looked up just now is looked up again soon, and is no failure of the endpoint."""

import socket

import pytest

from net_guard import Guard
from runtime.postgres import Pool, connection
from tests.webhooks.conftest import World
from webhooks import delivery_queue, endpoints, schedule
from webhooks.schedule import LOOK_UPS_IN_A_ROW


class NameServer:
    """Fails so often with `code`, and then knows the address."""

    def __init__(self, code: int, times: int) -> None:
        self.code = code
        self.left = times
        self.accounts: set[str] = set()

    async def __call__(self, host: str, port: int, account_id: str) -> list[str]:
        self.accounts.add(account_id)
        self.left -= 1
        if self.left >= 0:
            raise socket.gaierror(self.code, "not now")
        return ["127.0.0.1"]


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> NameServer:
    monkeypatch.setattr(schedule, "LOOK_UP_AGAIN_SECONDS", 0.05)
    return NameServer(socket.EAI_AGAIN, 3)


@pytest.fixture
def guard(name_server: NameServer) -> Guard:
    return Guard(["hooks.example:*"], name_server)


async def test_it_is_looked_up_again_soon_and_the_endpoint_has_not_failed(
    world: World, name_server: NameServer, pool: Pool
) -> None:
    url = world.receiver.url("/hook").replace("127.0.0.1", "hooks.example")
    endpoint = await world.endpoint(url, "run.completed")
    await world.chat()
    [delivery] = await world.until(endpoint.id, lambda found: bool(found) and found[0].status == "delivered")
    assert [each.error for each in delivery.attempts] == [*["unresolved"] * 3, None]
    assert {each.message for each in delivery.attempts[:3]} == {
        "The name of the endpoint could not be looked up just now."
    }
    assert name_server.accounts == {world.account_id}
    async with connection(pool) as conn:
        row = await (await conn.execute("SELECT failures, failing_since FROM webhook_endpoints")).fetchone()
    assert row == (0, None)


@pytest.mark.parametrize(
    ("code", "uncounted"), [(socket.EAI_AGAIN, LOOK_UPS_IN_A_ROW), (socket.EAI_NONAME, 0)]
)
async def test_one_that_is_never_found_is_the_endpoints_failure_in_the_end(
    world: World, name_server: NameServer, pool: Pool, code: int, uncounted: int
) -> None:
    url = world.receiver.url("/hook").replace("127.0.0.1", "hooks.example")
    endpoint = await world.endpoint(url, "run.completed")
    name_server.code, name_server.left = code, 10_000
    await world.chat()
    [delivery] = await world.until(endpoint.id, lambda found: bool(found) and found[0].status == "failed")
    assert len(delivery.attempts) == min(uncounted + 10, delivery_queue.MAX_ATTEMPTS_KEPT)
    found = await endpoints.get(pool, world.account_id, endpoint.id)
    assert found.failing_since is not None
