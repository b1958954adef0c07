"""The client's address, behind proxies that are trusted or not."""

from typing import Any

import pytest

from gateway.http.body_reader import BodyReader
from gateway.http.exchange import Exchange, Message
from gateway.http.peers import networks_of, peer_of
from gateway.http.problem_responses import head_of
from runtime.settings import SettingsError

pytestmark = pytest.mark.requirement("AUTH-GUESSES")


async def _receive() -> Message:
    return {"type": "http.disconnect"}


async def _send(_: Message) -> None:
    """Nothing is sent."""


def from_address(address: str | None, *forwarded: str) -> Exchange:
    scope: dict[str, Any] = {
        "client": None if address is None else (address, 4711),
        "headers": [(b"x-forwarded-for", value.encode()) for value in forwarded],
    }
    return Exchange(scope, _receive, _send, "0" * 32, BodyReader(), head_of)


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
    trusted = networks_of(["10.0.0.0/8", "fd00::/64"])
    assert peer_of(from_address(address, *forwarded), trusted) == peer


@pytest.mark.parametrize("text", ["proxy", "10.0.0.0/33", "10.0.0.1:80", "", "*"])
def test_what_is_no_network_is_named(text: str) -> None:
    with pytest.raises(SettingsError, match="AGENTCHAT_TRUSTED_PROXIES"):
        networks_of([text])
