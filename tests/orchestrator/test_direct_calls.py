"""Calls sent directly and by way of the SDK: the same requests, replies and failures."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from contracts.values import ToolSpec
from net_guard import Guard
from orchestrator.models import Credentials
from orchestrator.models.anthropic.client import AnthropicWire
from orchestrator.models.openai.client import OpenAIWire
from orchestrator.models.sdk_wire import DirectRequest
from orchestrator.models.streaming import StreamingModel
from tests.orchestrator import scripted_chat
from tests.orchestrator.provider_caller import Caller, user
from tests.orchestrator.scripted import Answer, Exchange, ScriptedProvider, breaks, fails, packed, page, says

pytestmark = pytest.mark.requirement("MODEL-STREAM", "MODEL-ERRORS")


@pytest.fixture(params=[(AnthropicWire, says("ok")), (OpenAIWire, scripted_chat.says("ok"))])
def spoken(request: pytest.FixtureRequest) -> Any:
    """A provider's wire, and an answer on it."""
    return request.param


@pytest.fixture
async def both(spoken: tuple[Any, Answer], provider: ScriptedProvider) -> AsyncIterator[Any]:
    """A caller of the provider that sends directly, and one that has the SDK send."""
    kind = spoken[0]

    class BySdk(kind):  # type: ignore[misc, valid-type]
        async def _direct_request(self, _credentials: Credentials, _client: Any) -> DirectRequest | None:
            return None

    async with AsyncExitStack() as stack:
        callers = []
        for wire in (kind(Guard(())), BySdk(Guard(()))):
            model = StreamingModel(wire, first_backoff_seconds=0.005)
            stack.push_async_callback(model.aclose)
            callers.append(Caller(model, f"{provider.url}/some where/v1?tenant=a%20b&x=ü"))
        yield callers


TOOL = ToolSpec(
    name="find", server="s", tool="find", description="Finds “it”.", input_schema={"type": "object"}
)


async def test_both_send_the_same_request(
    both: tuple[Caller, Caller], spoken: tuple[Any, Answer], provider: ScriptedProvider
) -> None:
    provider.will(spoken[1])
    for caller in both:
        await caller.stream(
            system="Sei kurz. \N{WAVING HAND SIGN}\u2028",
            messages=[user("hi\x00\x7f"), {"role": "assistant", "content": [{"type": "text", "text": "Ja"}]}],
            parameters={"temperature": 0.1, "top_p": 1e-07, "max_tokens": 2**40, "seed": None},
            tools=(TOOL,),
        )
    direct, by_sdk = provider.calls
    assert direct.line == by_sdk.line
    assert direct.headers["accept-encoding"] == "identity"
    own = {"content-length": "", "accept-encoding": ""}
    assert direct.headers | own == by_sdk.headers | own
    assert direct.body == by_sdk.body


async def test_both_read_the_same_reply(
    both: tuple[Caller, Caller], spoken: tuple[Any, Answer], provider: ScriptedProvider
) -> None:
    provider.will(spoken[1])
    read = [(await caller.stream(), "".join(caller.said), caller.meter.usage) for caller in both]
    assert read[0] == read[1]


async def hangs_up(exchange: Exchange) -> None:
    exchange.reset()


async def is_no_http(exchange: Exchange) -> None:
    exchange._writer.write(b"no HTTP\r\n\r\n")
    exchange._writer.close()
    await exchange.left.wait()


async def ends_inside_its_body(exchange: Exchange) -> None:
    await exchange.head(500, "application/json", content_length="9")
    exchange.reset()


def in_latin(body: bytes) -> Answer:
    async def answer(exchange: Exchange) -> None:
        await exchange.whole(400, "application/json; charset=utf-16", body)

    return answer


TOLD = [
    *(fails(status, "some_error", "Too “long”.") for status in (302, 400, 401, 402, 403, 404, 408, 409)),
    *(fails(status, "some_error") for status in (413, 418, 422, 500, 503, 504, 529, 599)),
    fails(400, "invalid_request_error", "prompt is too long: 210000 tokens"),
    fails(429, "rate_limit_error", retry_after="60"),
    fails(529, "overloaded_error", retry_after_ms="61000", date="Wed, 21 Oct 2015 07:28:00 GMT"),
    in_latin(b'{"error": {"message": "n\xc3\xb6", "code": "insufficient_quota"}}'),
    in_latin(b"\xff\xfe no JSON"),
    in_latin(b""),
    page("<html>502 Bad Gateway</html>"),
    breaks(how="overloaded_error"),
    breaks(how="close"),
    hangs_up,
]
"""Failures of which both say the very same."""

BROKEN = [breaks(how="reset"), packed(200), packed(500), is_no_http, ends_inside_its_body]
"""Failures of the same code; what the log calls them is the exception of each one's HTTP client."""


@pytest.mark.parametrize("answer", TOLD)
async def test_both_tell_a_failure_in_the_same_words(
    both: tuple[Caller, Caller], provider: ScriptedProvider, answer: Answer
) -> None:
    provider.will(answer)
    direct, by_sdk = [await caller.failure() for caller in both]
    assert vars(direct) == vars(by_sdk)
    assert str(direct) == str(by_sdk)


@pytest.mark.parametrize("answer", BROKEN)
async def test_both_judge_what_is_broken_alike(
    both: tuple[Caller, Caller], provider: ScriptedProvider, answer: Answer
) -> None:
    provider.will(answer)
    direct, by_sdk = [await caller.failure() for caller in both]
    assert (direct.code, direct.transient) == (by_sdk.code, by_sdk.transient) == ("provider_error", True)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1",
        "http://nowhere.invalid",
        "ftp://example.com",
        "example.com",
        "http://a b/",
    ],
)
async def test_an_address_that_leads_nowhere_is_the_same_failure(
    both: tuple[Caller, Caller], url: str
) -> None:
    found = []
    for caller in both:
        caller.credentials = Credentials(url, "k")
        found.append(await caller.failure())
    direct, by_sdk = found
    assert vars(direct) == vars(by_sdk)


async def test_an_error_is_read_as_far_as_it_can_matter(
    spoken: tuple[Any, Answer], provider: ScriptedProvider
) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.head(404, "application/json", transfer_encoding="chunked")
        while not exchange.left.is_set():
            await exchange.raw(b" " * 65536)

    provider.will(answer)
    model = StreamingModel(spoken[0](Guard(())))
    assert (await Caller(model, provider.url).failure()).kind == "http_404"
    await provider.calls[0].until_left()
    await model.aclose()


async def test_a_key_that_no_header_can_hold_is_not_sent(
    both: tuple[Caller, Caller], provider: ScriptedProvider
) -> None:
    """It could hold other headers; the SDK of `openai` raises what is no failure then."""
    direct = both[0]
    provider.calls.clear()
    direct.credentials = Credentials(direct.credentials.base_url, "sk\r\nx-admin: 1")
    assert (await direct.failure()).kind == "connection"
    assert provider.calls == []
