"""The OpenAI API, as its own Python SDK sees it (docs/integrate/openai.md)."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam

from tests.system.calling import Caller, MakeAgent

ORDER = "Where is my order ORD-1001?"
Messages = list[ChatCompletionMessageParam]


class Talk:
    """One client with one conversation, which it keeps itself and shows whole each time."""

    def __init__(self, caller: Caller, key: str | None = None, **client: Any) -> None:
        self.caller = caller
        self.model = caller.headers["X-Agent-Id"]
        self.client = AsyncOpenAI(
            base_url=f"{caller.base_url}/openai/v1",
            api_key=caller.headers["X-Api-Key"],
            default_headers={} if key is None else {"X-Conversation-Id": key},
            http_client=openai.DefaultAsyncHttpxClient(trust_env=False, timeout=50),
            **client,
        )
        self.messages: Messages = []

    async def ask(self, text: str, **headers: str) -> tuple[str, str]:
        """The reply, which is kept; and the conversation that it is in."""
        self.messages.append({"role": "user", "content": text})
        raw = await self.client.chat.completions.with_raw_response.create(
            model=self.model, messages=self.messages, extra_headers=headers
        )
        reply = raw.parse().choices[0].message.content
        assert reply is not None
        self.messages.append({"role": "assistant", "content": reply})
        return reply, raw.headers["x-conversation-id"]

    async def read_saved_texts(self, conversation_id: str) -> list[str]:
        return [message["content"] for message in await self.caller.messages(conversation_id)]


TalkTo = Callable[..., Talk]


@pytest.fixture
async def talk_to() -> AsyncIterator[TalkTo]:
    """Makes the client of an agent's caller; all are closed after the test."""
    async with contextlib.AsyncExitStack() as stack:

        def make(caller: Caller, key: str | None = None, **client: Any) -> Talk:
            talk = Talk(caller, key, **client)
            stack.push_async_callback(talk.client.close)
            return talk

        yield make


@pytest.fixture
async def echo(make_agent: MakeAgent) -> Caller:
    return await make_agent("demo-echo")


@pytest.fixture
async def shop(make_agent: MakeAgent) -> Caller:
    return await make_agent("demo-shop-1", shop=True)
