"""What of an address can be checked when it is saved, without asking a name server."""

import pytest

from agentchat.net_guard import AddressRefused, Guard


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
        "https://@models.example",
    ],
)
def test_what_leads_inside_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        Guard(()).check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.%31/",
        "https://models.example%2eevil.example/",
        "https://models%2Eexample",
        "https://models.example%00.evil.example",
        "https://[fe80::1%25eth0]/",
        "https://evil.example\\.models.example/",
        "https://evil.example\\@models.example/",
        "https://models.example\\/",
        "https://\uff11\uff12\uff17.0.0.1/",
        "https://127\u30020\uff0e0\uff611/",
        "https://m\u00f6dels.example/",
        "https://models.example\u2044.evil.example/",
        "https://xn--/",
        "https://xn--127-.0.0.1.example/",
        "https://xn--models-.example/",
        "https://xn--yi7c.example/",  # \uff4d
        "https://xn--modelsevil-6f99c.example/",  # models\uff0eevil
        "https://xn--modelsevil-sh3i.example/",  # models\u3002evil
        "https://0177.0.0.1/",
        "https://0x7f.0.0.1/",
        "https://134744072/",
        "https://0x08080808/",
        "https://8.8.2056/",
        "https://8.8.8.010/",
        "https://models.\texample/",
        "https://models.example\n.evil.example/",
        " https://models.example/",
        "\x01https://models.example/",
        "https://models.example\x7f/",
        "https:models.example/",
        "https:/models.example/",
        "https:///models.example/",
        "https:\\\\models.example/",
        "https://[v1.models]/",
        "https://[::1",
        "https://models..example/",
        "https://.models.example/",
        "https://models.example../",
        "https://models.example:\u0664\u0664\u0663/",
        "https://models.example:+443/",
        "https://models.example:",
    ],
)
def test_a_host_that_a_browser_could_read_as_another_one_is_refused(url: str) -> None:
    with pytest.raises((AddressRefused, ValueError)):
        Guard(("127.0.0.1:443", "127.0.0.%31:443")).check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://models.example/v1",
        "https://models.example./v1",
        "https://under_score.models.example/v1?a=%31\\b",
        "https://xn--mdels-jua.example/",
        "https://xn--strae-oqa.example/",
        "https://xn--fsqu00a.xn--0zwm56d/",
        "https://[2606:4700::1111]:443/",
        "https://[64:ff9b::5db8:d822]/",
        "https://[2002:5db8:d822::]/",
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


@pytest.mark.parametrize("entry", ["", "host", ":80", "host:", "host:x", "host:0", "host:65536"])
def test_a_wrong_entry_of_the_list_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        Guard([entry])
