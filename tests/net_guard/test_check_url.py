"""What of an address can be judged when it is saved, without asking a name server."""

import pytest

from net_guard import AddressRefused, Guard

pytestmark = pytest.mark.requirement("MODEL-ADDRESS")


@pytest.mark.parametrize(
    "url",
    [
        "http://models.example",
        "https://models.example:8443",
        "https://127.0.0.1",
        "https://127.1/v1",
        "https://2130706433",
        "https://0x7f000001",
        "https://127.0.0.1./",
        "https://256.1.1.1",
        "https://1.2.3.4.5",
        "https://1.2.3",
        "https://0x7f.1",
        "https://0x",
        "https://models.example.09",
        "https://models.example.0x",
        "https://models.example.1.",
        "https://models..1",
        "https://[::1]",
        "https://[::ffff:10.0.0.1]",
        "https://10.1.2.3",
        "https://169.254.169.254/latest",
        "https://localhost",
        "https://localhost.",
        "https://metadata.google.internal",
        "https://printer.local",
        "https://user@models.example",
    ],
)
def test_what_leads_inside_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        Guard(()).check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://models.example/v1",
        "https://models.example:443",
        "https://1.1.1.1",
        "https://1.models.example",
        "https://models.0xample",
        "https://models.4you",
    ],
)
def test_public_addresses_and_names_may_be_saved(url: str) -> None:
    Guard(()).check_url(url)


def test_listed_hosts_are_let_through_at_their_port_or_at_any() -> None:
    guard = Guard(("127.0.0.1:11434", "localhost:*", "[::1]:*"))
    for url in ("http://127.0.0.1:11434/v1", "http://localhost:8000", "https://LOCALHOST", "http://[::1]:80"):
        guard.check_url(url)
    for url in ("http://127.0.0.1:11435", "http://127.0.0.2:11434"):
        with pytest.raises(AddressRefused):
            guard.check_url(url)
