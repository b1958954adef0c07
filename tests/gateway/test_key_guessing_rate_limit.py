"""Guessing keys: rate-limited by address, and of no harm to who shares the address."""

import asyncio
import secrets
from typing import Any

import httpx
import pytest

from agentchat.administration import admin_accounts, admin_keys
from agentchat.administration.admin_values import NewAccount
from agentchat.administration.key_values import KeyRotation, NewKey
from agentchat.gateway.access.wrong_key_limit import WRONG_AT_ONCE, WrongKeys
from agentchat.runtime.client_address import find_peer, parse_networks
from agentchat.runtime.postgres import Pool
from agentchat.runtime.settings import SettingsError
from tests.administrator import administrator
from tests.gateway.client import check_problem
from tests.gateway.conftest import StartGateway
from tests.support.embedded_service import EmbeddedService

ADDRESS = "203.0.113.9"


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_key_guesses_of_an_address_are_a_token_bucket() -> None:
    clock = Clock()
    wrong_keys = WrongKeys(clock)
    for _ in range(WRONG_AT_ONCE):
        assert wrong_keys.wait(ADDRESS) is None
        wrong_keys.was_wrong(ADDRESS)
    assert wrong_keys.wait(ADDRESS) is None
    wrong_keys.was_wrong(ADDRESS)
    assert wrong_keys.wait(ADDRESS) == 1
    assert wrong_keys.wait("203.0.113.10") is None
    clock.now += 1
    assert wrong_keys.wait(ADDRESS) is None


def test_guesses_that_were_under_way_together_wait_a_minute_at_most() -> None:
    clock = Clock()
    wrong_keys = WrongKeys(clock)
    for _ in range(1000):
        wrong_keys.was_wrong(ADDRESS)
    assert wrong_keys.wait(ADDRESS) == 60
    clock.now += 60
    assert wrong_keys.wait(ADDRESS) is None


async def ask(http: httpx.AsyncClient, process: EmbeddedService, key: str, said: str = "") -> httpx.Response:
    """A request that names `said` as the address that it comes from."""
    headers = {"X-Api-Key": key, "X-Forwarded-For": said}
    return await http.get(f"{process.url}/v1/conversations", headers=headers)


def guess() -> str:
    return "sk-ac-" + secrets.token_urlsafe(32)


async def test_a_flood_of_guesses_is_429_and_every_key_that_counts_goes_on(
    start_gateway: StartGateway, pool: Pool
) -> None:
    account = await admin_accounts.create(
        administrator(pool), NewAccount(name="shared address", plan="Unlimited")
    )
    key, rotated, late = [
        await admin_keys.create(administrator(pool), account.id, NewKey()) for _ in range(3)
    ]
    no_more = {"access.wrong_key_limit.SECONDS_EACH": 3600.0}
    process = await start_gateway(no_more, AGENTCHAT_TRUSTED_PROXIES="127.0.0.2,10.0.0.0/8")
    proxy = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
    async with httpx.AsyncClient() as direct, httpx.AsyncClient(transport=proxy) as proxied:
        for known in (key, rotated):
            assert (await ask(proxied, process, known.key, ADDRESS)).status_code == 200
        behind = f"198.51.100.7, {ADDRESS}, 10.0.0.1"
        seen = [(await ask(proxied, process, guess(), behind)).status_code for _ in range(70)]
        assert seen == [401] * (WRONG_AT_ONCE + 1) + [429] * 9
        refused = await ask(proxied, process, guess(), ADDRESS)
        check_problem(refused, 429, "rate_limited")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert (await ask(proxied, process, key.key, ADDRESS)).status_code == 200
        fresh = await admin_keys.rotate(administrator(pool), rotated.id, KeyRotation())
        check_problem(await ask(proxied, process, rotated.key, ADDRESS), 429, "rate_limited")
        for elsewhere in ("198.51.100.7", "no address", "2001:db8::1"):
            check_problem(await ask(proxied, process, guess(), elsewhere), 401, "invalid_api_key")
        assert (await ask(proxied, process, fresh.key, ADDRESS)).status_code == 200

        seen = [(await ask(direct, process, guess(), f"192.0.2.{n}")).status_code for n in range(70)]
        assert seen == [401] * (WRONG_AT_ONCE + 1) + [429] * 9
        flood = [asyncio.create_task(ask(direct, process, guess())) for _ in range(20)]
        assert (await ask(direct, process, late.key)).status_code == 200  # never seen here before
        assert {each.status_code for each in await asyncio.gather(*flood)} == {429}
        check_problem(await direct.get(f"{process.url}/v1/conversations"), 401, "missing_api_key")


def from_address(address: str | None, *forwarded: str) -> dict[str, Any]:
    return {
        "client": None if address is None else (address, 4711),
        "headers": [(b"x-forwarded-for", value.encode()) for value in forwarded],
    }


@pytest.mark.parametrize(
    ("address", "forwarded", "peer"),
    [
        ("192.0.2.1", (), "192.0.2.1"),
        ("192.0.2.1", ("203.0.113.9",), "192.0.2.1"),
        ("10.1.2.3", (), "10.1.2.3"),
        ("10.1.2.3", ("203.0.113.9",), "203.0.113.9"),
        ("10.1.2.3", ("198.51.100.7, 203.0.113.9",), "203.0.113.9"),
        ("10.1.2.3", ("198.51.100.7", "203.0.113.9, 10.9.9.9"), "203.0.113.9"),
        ("10.1.2.3", ("198.51.100.7, 10.9.9.9, 10.8.8.8",), "198.51.100.7"),
        ("10.1.2.3", ("10.4.4.4, 10.9.9.9",), "10.4.4.4"),
        ("10.1.2.3", ("203.0.113.9, x",), "10.1.2.3"),
        ("10.1.2.3", ("203.0.113.9, x, 10.9.9.9",), "10.9.9.9"),
        ("10.1.2.3", ("", ","), "10.1.2.3"),
        ("10.1.2.3", ("203.0.113.9:55555",), "203.0.113.9"),
        ("10.1.2.3", ("[2001:db8:1:2:3::4]:55555",), "2001:db8:1:2::/64"),
        ("10.1.2.3", ("2001:db8:1:2:3::4",), "2001:db8:1:2::/64"),
        ("10.1.2.3", ("::ffff:203.0.113.9",), "203.0.113.9"),
        ("::ffff:10.1.2.3", ("203.0.113.9",), "203.0.113.9"),
        ("fd00::1", ("203.0.113.9",), "203.0.113.9"),
        ("10.1.2.3", (", ".join(["203.0.113.9"] + ["10.0.0.1"] * 5000),), "10.0.0.1"),
        (None, ("203.0.113.9",), "None"),
    ],
)
def test_only_trusted_proxies_are_believed(
    address: str | None, forwarded: tuple[str, ...], peer: str
) -> None:
    trusted = parse_networks(["10.0.0.0/8", "fd00::/64"])
    assert find_peer(from_address(address, *forwarded), trusted) == peer


@pytest.mark.parametrize("text", ["proxy", "10.0.0.0/33", "10.0.0.1:80", "", "*"])
def test_an_invalid_network_is_named(text: str) -> None:
    with pytest.raises(SettingsError, match="AGENTCHAT_TRUSTED_PROXIES"):
        parse_networks([text])
