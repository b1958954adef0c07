"""Look-ups take turns by account, and what goes wrong with one says whether the name is at fault."""

import asyncio
import socket
import threading
from typing import Any

import pytest

from agentchat.net_guard import Guard, NotLookedUp, Resolver, Unresolved, permitted_addresses
from agentchat.net_guard.permitted_addresses import look_up_for, resolve_permitted

PUBLIC = "93.184.216.34"


class NameServers:
    """What the system asks. Names that begin with `slow` are not answered before `answer` is set."""

    def __init__(self) -> None:
        self.answer = threading.Event()
        self.asked = threading.Semaphore(0)

    def __call__(self, host: str, port: int, **_: Any) -> list[Any]:
        if host.startswith("slow"):
            self.asked.release()
            self.answer.wait(60)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (PUBLIC, port))]


@pytest.fixture
def name_servers(monkeypatch: pytest.MonkeyPatch) -> NameServers:
    found = NameServers()
    monkeypatch.setattr(socket, "getaddrinfo", found)
    return found


async def test_names_at_slow_name_servers_take_no_turns_of_another_account(name_servers: NameServers) -> None:
    guard = Guard((), Resolver(threads=4))
    with look_up_for("attacker"):
        slow = [asyncio.create_task(resolve_permitted(guard, f"slow-{n}.example", 443)) for n in range(50)]
    for _ in range(2):  # half of the threads
        assert await asyncio.to_thread(name_servers.asked.acquire, timeout=30)
    with look_up_for("other"):
        assert await resolve_permitted(guard, "hooks.example", 443) == [PUBLIC]
    name_servers.answer.set()
    assert await asyncio.gather(*slow) == [[PUBLIC]] * 50


async def test_slow_name_server_is_not_reported_as_missing_address(
    name_servers: NameServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permitted_addresses, "CONNECT_SECONDS", 0.05)
    with pytest.raises(NotLookedUp):
        await resolve_permitted(Guard(()), "slow.example", 443)
    name_servers.answer.set()


@pytest.mark.parametrize(
    ("code", "expected"), [(socket.EAI_AGAIN, NotLookedUp), (socket.EAI_NONAME, Unresolved)]
)
async def test_only_a_name_that_is_known_not_to_be_has_no_address(
    code: int, expected: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_error(*_: Any, **__: Any) -> list[Any]:
        raise socket.gaierror(code, "no")

    monkeypatch.setattr(socket, "getaddrinfo", raise_error)
    with pytest.raises(Unresolved) as raised:
        await resolve_permitted(Guard(()), "hooks.example", 443)
    assert type(raised.value) is expected
