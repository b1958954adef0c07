"""Guessing keys: bounded by address, and of no harm to who shares the address."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from directory.administration import create_account, create_key, rotate_key
from gateway.guesses import REMEMBERED_SECONDS, WRONG_AT_ONCE, Guesses
from limits.penalty import WAIT_SECONDS
from runtime.postgres import Connection, connection, open_pool
from tests.gateway.client import check_problem
from tests.gateway.process import GatewayProcess

pytestmark = pytest.mark.requirement("AUTH-GUESSES")

ADDRESS = "203.0.113.9"


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_an_address_has_so_many_guesses_and_one_more_each_second() -> None:
    clock = Clock()
    guesses = Guesses(clock)
    for number in range(WRONG_AT_ONCE):
        assert guesses.wait(ADDRESS, f"sk-{number}") is None
        guesses.was_wrong(ADDRESS, f"sk-{number}")
    assert guesses.wait(ADDRESS, "sk-next") is None
    guesses.was_wrong(ADDRESS, "sk-next")
    assert guesses.wait(ADDRESS, "sk-next-but-one") == 1
    assert guesses.wait("203.0.113.10", "sk-next-but-one") is None
    clock.now += 1
    assert guesses.wait(ADDRESS, "sk-next-but-one") is None


def test_guesses_that_were_under_way_together_wait_a_minute_at_most() -> None:
    clock = Clock()
    guesses = Guesses(clock)
    for number in range(1000):
        guesses.was_wrong(ADDRESS, f"sk-{number}")
    assert guesses.wait(ADDRESS, "sk-next") == 60
    clock.now += 60
    assert guesses.wait(ADDRESS, "sk-next") is None


def test_a_refused_key_is_remembered_for_a_moment() -> None:
    clock = Clock()
    guesses = Guesses(clock)
    assert not guesses.was_refused("sk-a")
    guesses.was_wrong(ADDRESS, "sk-a")
    assert guesses.was_refused("sk-a")
    assert not guesses.was_refused("sk-b")
    clock.now += REMEMBERED_SECONDS
    assert not guesses.was_refused("sk-a")


def test_a_key_that_counted_is_no_guess_even_when_it_fails() -> None:
    guesses = Guesses(Clock())
    guesses.was_right("sk-mine")
    for number in range(100):
        guesses.was_wrong(ADDRESS, f"sk-{number}")
    assert guesses.wait(ADDRESS, "sk-mine") is None
    guesses.was_wrong(ADDRESS, "sk-mine")
    assert not guesses.was_refused("sk-mine")
    assert guesses.wait(ADDRESS, "sk-mine") is not None


def test_what_is_remembered_is_bounded() -> None:
    guesses = Guesses(Clock())
    for number in range(10_001):
        guesses.was_wrong(f"address-{number}", f"sk-{number}")
        guesses.was_right(f"sk-right-{number}")
    assert not guesses.was_refused("sk-0")
    assert guesses.was_refused("sk-1")
    for number in range(WRONG_AT_ONCE + 1):
        guesses.was_wrong(ADDRESS, f"sk-wrong-{number}")
    assert guesses.wait(ADDRESS, "sk-right-0") is not None
    assert guesses.wait(ADDRESS, "sk-right-1") is None


@pytest.fixture
async def conn(migrated_database_url: str) -> AsyncIterator[Connection]:
    async with open_pool(migrated_database_url) as pool, connection(pool, seconds=20) as opened:
        yield opened


async def ask(http: httpx.AsyncClient, process: GatewayProcess, key: str, said: str = "") -> httpx.Response:
    """A request that names `said` as the address that it comes from."""
    headers = {"X-Api-Key": key, "X-Forwarded-For": said}
    return await http.get(f"{process.url}/v1/conversations", headers=headers)


def guess() -> str:
    return "sk-ac-" + secrets.token_urlsafe(32)


async def test_a_flood_of_guesses_is_429_and_every_key_that_counts_goes_on(
    environ: dict[str, str], conn: Connection, tmp_path_factory: pytest.TempPathFactory
) -> None:
    account = await create_account(conn, name="shared address", plan="Unlimited", actor="test")
    key, rotated, late = [await create_key(conn, account.account_id, actor="test") for _ in range(3)]
    proxies = {"AGENTCHAT_TRUSTED_PROXIES": "127.0.0.2,10.0.0.0/8"}
    no_more = {"guesses.SECONDS_EACH": 3600.0}
    process = GatewayProcess(tmp_path_factory.mktemp("proxied"), {**environ, **proxies}, no_more)
    await process.start()
    proxy = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
    async with httpx.AsyncClient() as direct, httpx.AsyncClient(transport=proxy) as proxied:
        for known in (key, rotated):
            assert (await ask(proxied, process, known.key, ADDRESS)).status_code == 200
        behind = f"198.51.100.7, {ADDRESS}, 10.0.0.1"
        seen = [(await ask(proxied, process, guess(), behind)).status_code for _ in range(70)]
        assert seen == [401] * (WRONG_AT_ONCE + 1) + [429] * 9
        began = time.monotonic()
        await asyncio.gather(*(ask(proxied, process, guess(), ADDRESS) for _ in range(40)))
        assert time.monotonic() - began >= WAIT_SECONDS  # who does not stop is answered late
        refused = await ask(proxied, process, guess(), ADDRESS)
        check_problem(refused, 429, "rate_limited")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert (await ask(proxied, process, key.key, ADDRESS)).status_code == 200
        fresh = await rotate_key(conn, rotated.key_id, actor="test")
        check_problem(await ask(proxied, process, rotated.key, ADDRESS), 401, "invalid_api_key")
        for elsewhere in ("198.51.100.7", "no address", "2001:db8::1"):
            check_problem(await ask(proxied, process, guess(), elsewhere), 401, "invalid_api_key")
        assert (await ask(proxied, process, fresh.key, ADDRESS)).status_code == 200

        seen = [(await ask(direct, process, guess(), f"192.0.2.{n}")).status_code for n in range(70)]
        assert seen == [401] * (WRONG_AT_ONCE + 1) + [429] * 9
        flood = [asyncio.create_task(ask(direct, process, guess())) for _ in range(20)]
        assert (await ask(direct, process, late.key)).status_code == 200  # never seen here before
        assert {each.status_code for each in await asyncio.gather(*flood)} == {429}
        check_problem(await direct.get(f"{process.url}/v1/conversations"), 401, "missing_api_key")
    await process.stop()
