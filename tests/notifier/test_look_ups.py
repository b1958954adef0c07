"""A name that cannot be looked up just now is looked up again soon, and is no failure of the endpoint."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from net_guard import Guard
from notifier import schedule
from notifier.dispatching import Dispatcher
from notifier.schedule import LOOK_UPS_IN_A_ROW
from runtime.postgres import Pool, connection
from tests.administrator import SEALER
from tests.notifier.conftest import World
from webhooks import endpoints, outbox


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


Serve = Callable[[NameServer], contextlib.AbstractAsyncContextManager[None]]


@pytest.fixture
def serve(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> Serve:
    monkeypatch.setattr(schedule, "LOOK_UP_AGAIN_SECONDS", 0.05)
    monkeypatch.setattr(schedule, "RETRY_SECONDS", (0.05,) * 9)
    monkeypatch.setattr(schedule, "LONGEST_PAUSE", 0.05)

    @contextlib.asynccontextmanager
    async def serving(name_server: NameServer) -> AsyncIterator[None]:
        guard = Guard(["hooks.example:*"], name_server)
        wake = asyncio.Event()
        tasks = [
            asyncio.create_task(Dispatcher("notifier-test", pool, SEALER, guard, wake).run()),
            asyncio.create_task(_wake_again_and_again(wake)),
        ]
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    return serving


async def _wake_again_and_again(wake: asyncio.Event) -> None:
    while True:
        wake.set()
        await asyncio.sleep(0.02)


async def test_it_is_looked_up_again_soon_and_the_endpoint_has_not_failed(
    world: World, serve: Serve, pool: Pool
) -> None:
    url = world.receiver.url("/hook").replace("127.0.0.1", "hooks.example")
    endpoint = await world.endpoint(url, "run.completed")
    name_server = NameServer(socket.EAI_AGAIN, 3)
    async with serve(name_server):
        await world.chat()
        [delivery] = await world.until(
            endpoint.id, lambda found: bool(found) and found[0].status == "delivered"
        )
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
    world: World, serve: Serve, pool: Pool, code: int, uncounted: int
) -> None:
    url = world.receiver.url("/hook").replace("127.0.0.1", "hooks.example")
    endpoint = await world.endpoint(url, "run.completed")
    async with serve(NameServer(code, 10_000)):
        await world.chat()
        [delivery] = await world.until(endpoint.id, lambda found: bool(found) and found[0].status == "failed")
    assert len(delivery.attempts) == min(uncounted + 10, outbox.MAX_ATTEMPTS_KEPT)
    found = await endpoints.get(pool, world.account_id, endpoint.id)
    assert found.failing_since is not None
