"""Calls of an agent's own address: what they carry, and what of the answer is read."""

import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from agentchat.net_guard import Guard
from agentchat.orchestrator.models import Credentials, ModelClient
from agentchat.orchestrator.models.aiohttp_client import MAX_ERROR_BYTES
from agentchat.orchestrator.models.anthropic.client import AnthropicModel
from agentchat.orchestrator.models.openai.client import OpenAIModel
from tests.orchestrator import scripted_chat
from tests.orchestrator.provider_caller import Caller
from tests.orchestrator.scripted import Answer, Exchange, ScriptedProvider, reply_with

# Every variable that the SDKs read (anthropic 2.11, openai 3.54), and more than they may send.
ENVIRONMENT = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_WEBHOOK_SIGNING_KEY",
    "ANTHROPIC_IDENTITY_TOKEN",
    "ANTHROPIC_FEDERATION_RULE_ID",
    "ANTHROPIC_ORGANIZATION_ID",
    "ANTHROPIC_PROFILE",
    "OPENAI_API_KEY",
    "OPENAI_ADMIN_KEY",
    "OPENAI_ORG_ID",
    "OPENAI_PROJECT_ID",
    "OPENAI_WEBHOOK_SECRET",
)


@pytest.fixture(
    params=[(AnthropicModel, reply_with("ok")), (OpenAIModel, scripted_chat.reply_with("ok"))],
    ids=["anthropic", "openai"],
)
def provider_answer(request: pytest.FixtureRequest) -> Any:
    """A provider, and an answer of it."""
    return request.param


@pytest.fixture
async def client(
    provider_answer: tuple[Callable[..., ModelClient], Answer], provider: ScriptedProvider
) -> AsyncIterator[ModelClient]:
    provider.will(provider_answer[1])
    opened = provider_answer[0](Guard((urlsplit(provider.url).netloc,)))
    yield opened
    await opened.aclose()


def create_caller(client: ModelClient, url: str, *, guarded: bool = True) -> Caller:
    caller = Caller(client, url)
    caller.credentials = Credentials(url, "sk-own", guarded=guarded)
    return caller


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the process was started with."""
    for name in ENVIRONMENT:
        monkeypatch.setenv(name, "CANARY")
    for name in ("ANTHROPIC_CUSTOM_HEADERS", "OPENAI_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, "X-Ours: CANARY\nAuthorization: Bearer CANARY\nx-api-key: CANARY")


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("guarded", [True, False])
async def test_nothing_of_the_environment_is_sent(
    client: ModelClient, provider: ScriptedProvider, guarded: bool
) -> None:
    await create_caller(client, provider.url, guarded=guarded).stream()
    assert "sk-own" in str(provider.calls[0].headers)
    assert "CANARY" not in str([(call.headers, call.body) for call in provider.calls])


@pytest.mark.parametrize("guarded", [True, False])
async def test_a_cookie_is_not_kept(
    client: ModelClient,
    provider_answer: tuple[Callable[..., ModelClient], Answer],
    provider: ScriptedProvider,
    guarded: bool,
) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.respond(529, "text/html", b"", set_cookie="account=1; Path=/", retry_after="60")

    provider.will(answer, provider_answer[1])
    # aiohttp's own jar takes no cookie of an address.
    caller = create_caller(client, provider.url.replace("127.0.0.1", "localhost"), guarded=guarded)
    if guarded:
        caller.credentials = Credentials(provider.url, "sk-own", guarded=True)
    await caller.failure()
    await caller.stream()
    assert "cookie" not in provider.calls[1].headers


async def test_an_error_is_read_as_far_as_it_can_matter(
    client: ModelClient, provider: ScriptedProvider
) -> None:
    sent = 0

    async def answer(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.head(404, "application/json", transfer_encoding="chunked")
        while sent < 64 * MAX_ERROR_BYTES:
            await exchange.write(b" " * 65536)
            sent += 65536

    provider.will(answer)
    failure = await create_caller(client, provider.url).failure()
    assert failure.kind == "wrong_base_url"
    await provider.calls[0].wait_until_left()
    assert sent < 16 * MAX_ERROR_BYTES


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("charset", ["zlib", "undefined", "utf-16"])
async def test_a_charset_of_python_alone_is_not_decoded(
    client: ModelClient, provider: ScriptedProvider, charset: str, guarded: bool
) -> None:
    """Python has codecs that expand, and some that raise what no client expects."""

    async def answer(exchange: Exchange) -> None:
        body = zlib.compress(b'{"error": {"message": "no"}}')
        await exchange.respond(400, f"application/json; charset={charset}", body)

    provider.will(answer)
    failure = await create_caller(client, provider.url, guarded=guarded).failure()
    assert failure.kind == "http_400"
    assert "message" not in failure.provider_message


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize(
    "sent",
    [
        b"no HTTP\r\n\r\n",
        b"HTTP/1.1 204 X\r\ncontent-length: 2\r\n\r\n{}",
        pytest.param(b"HTTP/1.1 304 X\r\ncontent-length: 2\r\n\r\n{}", marks=pytest.mark.slow),
        b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\nno size\r\n",
        pytest.param(
            b"HTTP/1.1 500 X\r\ntransfer-encoding: chunked\r\n\r\nno size\r\n", marks=pytest.mark.slow
        ),
        pytest.param(b"HTTP/1.1 200 X\r\ntransfer-encoding: gzip\r\n\r\n", marks=pytest.mark.slow),
        pytest.param(
            b"HTTP/1.1 200 X\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}", marks=pytest.mark.slow
        ),
        pytest.param(b"HTTP/1.1 200 X\r\n" + b"x: y\r\n" * 100_000 + b"\r\n", marks=pytest.mark.slow),
        pytest.param(b"HTTP/1.1 200 X\r\nx: \xff\xfe\r\n\r\n", marks=pytest.mark.slow),
        b"HTTP/1.1 999 X\r\ncontent-length: 0\r\n\r\n",
    ],
)
async def test_an_answer_that_is_no_http_is_a_failure(
    client: ModelClient, provider: ScriptedProvider, sent: bytes, guarded: bool
) -> None:
    async def answer(exchange: Exchange) -> None:
        exchange._writer.write(sent)
        exchange._writer.close()
        await exchange.left.wait()

    provider.will(answer)
    assert (await create_caller(client, provider.url, guarded=guarded).failure()).code == "provider_error"
