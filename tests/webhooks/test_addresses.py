"""Attempts refuse private addresses, redirects, and names that lead to either."""

import ssl

import pytest

from agentchat.contracts.admin_errors import Invalid
from agentchat.contracts.webhooks import PORTS, Attempt
from agentchat.net_guard import AddressRefused, Guard
from agentchat.net_guard.ssrf_guard import build_guard
from agentchat.webhooks import delivery_attempt
from agentchat.webhooks.delivery_attempt import Clock, WebhookSender
from agentchat.webhooks.endpoints import check_url
from agentchat.webhooks.webhook_signing import Signer
from tests.webhooks.conftest import World, have_attempts
from tests.webhooks.receiver import build_status

SIGNER = Signer("whsec_" + "c2VjcmV0" * 4)


async def _make_attempt(guard: Guard, url: str) -> Attempt:
    sender = WebhookSender(guard, ssl.create_default_context(), Clock(), "account")
    try:
        return (await sender.send(url, [SIGNER], "msg_1", b"{}")).attempt
    finally:
        await sender.aclose()


async def test_a_name_whose_address_has_become_private_is_not_called(world: World) -> None:
    found = [["127.0.0.1"]]

    async def resolve(host: str, port: int, account_id: str) -> list[str]:
        return found[0]

    attempt = await _make_attempt(Guard([], resolve), "https://hooks.example/x")
    assert (attempt.status, attempt.error) == (None, "address_refused")
    reason = "hooks.example is at an address that is not public"
    assert attempt.message == f"The address is not allowed: {reason}."
    assert world.receiver.received == []


async def test_a_name_that_only_looks_like_one_has_no_address() -> None:
    """The client's own URL raises for it, which once kept the endpoint's sender from recording anything."""
    attempt = await _make_attempt(Guard([]), "https://xn--a.-.example/x")
    assert (attempt.error, attempt.message) == ("unresolved", "The host name has no address.")


async def test_a_redirect_is_a_failure_and_is_not_followed(world: World) -> None:
    world.receiver.answer_with(
        "/moved", build_status(302, f"Location: {world.receiver.build_url('/inside')}"), build_status(204)
    )
    endpoint = await world.create_endpoint("/moved", "run.completed")
    await world.chat()
    [delivery] = await world.wait_until(
        endpoint.id, lambda found: bool(found) and found[0].status == "delivered"
    )
    first = delivery.attempts[0]
    assert (first.status, first.error) == (302, "redirect_refused")
    assert first.message == "The endpoint answered 302; redirects are not followed."
    assert world.receiver.list_at("/inside") == []


@pytest.mark.parametrize("guard", [Guard(["127.0.0.2:*"])])
async def test_address_no_longer_allowed_is_refused_at_the_attempt(world: World) -> None:
    endpoint = await world.create_endpoint("/hook", "run.completed")
    await world.chat()
    [delivery] = await world.wait_until(endpoint.id, have_attempts(1))
    assert delivery.attempts[0].error == "address_refused"
    assert world.receiver.received == []


@pytest.mark.parametrize("guard", [build_guard(("127.0.0.2:*",), "AGENTCHAT_WEBHOOK_ALLOW", PORTS)])
async def test_an_attempt_may_go_to_port_8443_and_to_no_other_next_to_443(world: World) -> None:
    """Nothing public listens for tests: an address that is refused says that its port was not why."""
    said = {}
    ports = {
        port: await world.create_endpoint(f"https://127.0.0.1:{port}/", "run.completed")
        for port in (8443, 8444)
    }
    await world.chat()
    for port, endpoint in ports.items():
        [delivery] = await world.wait_until(endpoint.id, have_attempts(1))
        said[port] = delivery.attempts[0].message
    assert said == {
        8443: "The address is not allowed: 127.0.0.1 is not a public address.",
        8444: "The address is not allowed: port 8444.",
    }


async def test_an_endpoint_that_does_not_answer_in_time_has_timed_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_attempt, "ATTEMPT_SECONDS", 0.3)

    async def hang(_: object) -> bytes | None:
        await world.wait_until(endpoint.id, have_attempts(1))
        return None

    world.receiver.answer_by("/hangs", hang)
    endpoint = await world.create_endpoint("/hangs", "run.completed")
    await world.chat()
    [delivery] = await world.wait_until(endpoint.id, have_attempts(1))
    assert (delivery.attempts[0].status, delivery.attempts[0].error) == (None, "timeout")


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/",
        "https://10.0.0.1/",
        "https://[::1]/",
        "https://169.254.169.254/latest",
        "https://localhost/",
        "https://metadata.google.internal/",
        "http://hooks.example/",
        "https://hooks.example:8000/",
    ],
)
async def test_private_address_is_refused_at_creation(url: str) -> None:
    with pytest.raises(AddressRefused):
        await check_url(Guard([]), url, "account")


@pytest.mark.parametrize(
    "url", ["ftp://hooks.example/", "hooks.example", "https://", "https://a b/", "https://u:p@h.example/"]
)
async def test_what_is_no_address_is_refused_as_such(url: str) -> None:
    with pytest.raises(Invalid):
        await check_url(Guard([]), url, "account")
