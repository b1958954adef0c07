"""A URL that is saved: the addresses that its host has now are checked too."""

import pytest

from agentchat.net_guard import AddressRefused, Guard
from agentchat.net_guard.permitted_addresses import check_saved_url

_NAMES = {
    "public.example": ["93.184.215.14"],
    "inner.example": ["10.1.2.3"],
    "both.example": ["93.184.215.14", "::1"],
}


async def _resolve(host: str, port: int, account_id: str) -> list[str]:
    if host not in _NAMES:
        raise OSError("no such name")
    return _NAMES[host]


@pytest.mark.parametrize("host", ["inner.example", "both.example"])
async def test_name_of_inner_address_is_refused_without_telling_it(host: str) -> None:
    with pytest.raises(AddressRefused) as refused:
        await check_saved_url(Guard((), _resolve), f"https://{host}/mcp")
    assert str(refused.value) == f"{host} is at an address that is not public"


@pytest.mark.parametrize("host", ["public.example", "not-yet-there.example"])
async def test_a_public_name_and_one_that_does_not_resolve_now_are_taken(host: str) -> None:
    await check_saved_url(Guard((), _resolve), f"https://{host}/mcp")


async def test_a_listed_name_may_be_at_an_inner_address() -> None:
    await check_saved_url(Guard(("inner.example:8000",), _resolve), "http://inner.example:8000/mcp")


async def test_what_needs_no_name_server_is_refused_as_it_is() -> None:
    with pytest.raises(AddressRefused, match=r"127\.0\.0\.1 is not a public address"):
        await check_saved_url(Guard((), _resolve), "https://127.0.0.1/mcp")
