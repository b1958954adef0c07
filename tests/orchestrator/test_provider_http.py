"""Calls of providers on the wire: the SDK's requests, where they go, and answers that break or never end."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from agentchat.net_guard import Guard
from agentchat.orchestrator.models import Credentials, Meter, ModelCall
from agentchat.orchestrator.models.anthropic.client import AnthropicModel
from agentchat.orchestrator.models.model_interface import ModelClient
from agentchat.orchestrator.models.openai.client import OpenAIModel
from tests.orchestrator import scripted_chat
from tests.orchestrator.provider_caller import Caller, user
from tests.orchestrator.scripted import Answer, Exchange, ScriptedProvider, reply_with

NAME = "models.example"


@pytest.fixture(params=[(AnthropicModel, reply_with("ok")), (OpenAIModel, scripted_chat.reply_with("ok"))])
def provider_answer(request: pytest.FixtureRequest) -> Any:
    """A provider's wire, and an answer on it."""
    return request.param


@pytest.fixture
async def client(
    provider_answer: tuple[Any, Answer], provider: ScriptedProvider
) -> AsyncIterator[ModelClient]:
    """Agents may name the address NAME, which is the provider's."""
    provider.will(provider_answer[1])

    async def resolve(host: str, port: int, account_id: str) -> list[str]:
        return {NAME: ["127.0.0.1"]}[host]

    guard = Guard([f"{NAME}:{urlsplit(provider.url).port}"], resolve)
    model = provider_answer[0](guard, first_backoff_seconds=0.005)
    yield model
    await model.aclose()


@pytest.fixture
def either(client: ModelClient, provider: ScriptedProvider) -> Caller:
    """A caller of each provider in turn."""
    return Caller(client, provider.url)


async def test_the_query_of_an_address_stays_the_query(either: Caller, provider: ScriptedProvider) -> None:
    either.credentials = Credentials(f"{provider.url}/v1/?tenant=a%20b&x=ü", "k")
    await either.stream()
    path, _, query = provider.calls[0].line.split(" ")[1].partition("?")
    assert path in ("/v1/v1/messages", "/v1/chat/completions")
    assert query == "tenant=a%20b&x=%C3%BC"


async def test_a_body_of_megabytes_is_sent_whole(either: Caller, provider: ScriptedProvider) -> None:
    await either.stream(system="x" * (3 << 20))
    assert "x" * (3 << 20) in str(provider.calls[0].body)


async def test_an_agents_own_address_is_checked_and_no_proxy_is_used(
    either: Caller, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    port = urlsplit(provider.url).port
    either.credentials = Credentials(f"http://{NAME}:{port}", "k", guarded=True)
    await either.stream()
    assert provider.calls[0].headers["host"] == f"{NAME}:{port}"


async def test_a_proxy_of_the_environment_is_used_for_other_hosts(
    either: Caller, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", provider.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    either.credentials = Credentials(f"http://{NAME}/v1", "k")
    await either.stream()
    assert provider.calls[0].line.startswith(f"POST http://{NAME}/v1/")


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://127.0.0.1:1", "connection"),
        ("http://nowhere.invalid", "connection"),
        ("ftp://example.com", "connection"),
        ("example.com", "connection"),
        ("http://a b/", "connection"),
        ("http://example.com:port/", "address"),
    ],
)
async def test_an_address_that_leads_nowhere_is_a_failure(either: Caller, url: str, kind: str) -> None:
    either.credentials = Credentials(url, "k")
    failure = await either.failure()
    assert (failure.code, failure.kind) == ("provider_error", kind)


async def test_a_key_that_no_header_can_hold_is_not_sent(either: Caller, provider: ScriptedProvider) -> None:
    """It could hold other headers."""
    provider.calls.clear()
    either.credentials = Credentials(provider.url, "sk\r\nx-admin: 1")
    assert (await either.failure()).kind == "connection"
    assert provider.calls == []


async def end_inside_body(exchange: Exchange) -> None:
    await exchange.head(500, "application/json", content_length="9")
    exchange.reset()


async def test_truncated_response_is_transient(caller: Caller, provider: ScriptedProvider) -> None:
    provider.will(end_inside_body)
    failure = await caller.failure()
    assert (failure.code, failure.transient) == ("provider_error", True)


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"HTTP/1.1 200 OK\r\nx: ", b"y"),
        (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;x=", b"y"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: ", b"y"),
    ],
    ids=["line", "head", "interim", "extension", "trailer"],
)
async def test_endless_empty_response_is_abandoned(
    impatient_caller: Caller, provider: ScriptedProvider, begin: bytes, more: bytes
) -> None:
    async def answer(exchange: Exchange) -> None:
        exchange._writer.write(begin)
        while True:
            exchange._writer.write(more * 1024)
            await exchange._writer.drain()
            await asyncio.sleep(0)

    provider.will(answer)
    failure = await impatient_caller.failure()
    assert failure.code in ("provider_error", "provider_timeout")
    await provider.calls[-1].wait_until_left()


async def test_a_provider_waits_for_a_reader_that_waits(caller: Caller, provider: ScriptedProvider) -> None:
    waiting, sent = asyncio.Event(), 0

    async def answer(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.begin()
        await exchange.block(type="text", text="Hel")
        try:
            while True:
                async with asyncio.timeout(1.0):
                    await exchange.write(b": " + b"x" * 65534 + b"\n")
                    sent += 65536
        except TimeoutError:
            waiting.set()
        await exchange.left.wait()

    async def on_text(_text: str) -> None:
        await waiting.wait()
        raise LookupError

    provider.will(answer)
    call = ModelCall(model="m", system="", messages=[user("hi")], parameters={})
    async with asyncio.timeout(20):
        with pytest.raises(LookupError):
            await caller.client.stream(caller.credentials, call, on_text, Meter())
    assert sent < 16 << 20
    await provider.calls[0].wait_until_left()
