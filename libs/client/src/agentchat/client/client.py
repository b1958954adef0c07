"""Call the service from blocking code: run `agentchat.client.async_client` without an event loop."""

import time
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Concatenate, ParamSpec, Self, TypeVar

import httpx

from agentchat.client.api_calls import LIMITS
from agentchat.client.async_client import AsyncAgentChat
from agentchat.client.blocking import BlockingHttp, iterate, run
from agentchat.client.call_sender import ReplyReader
from agentchat.client.retries import Timeouts
from agentchat.client.stream_events import Event
from agentchat.client.uploads import Files

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def _make_blocking(
    method: Callable[Concatenate[AsyncAgentChat, P], R], convert: Callable[[R], T]
) -> Callable[Concatenate["AgentChat", P], T]:
    """Turn a method of the asyncio client into a blocking one with the same arguments and docstring.

    `convert` turns what the method returns without being awaited into the result of the blocking method.
    """

    @wraps(method)
    def call(self: "AgentChat", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return convert(method(self._client, *args, **kwargs))

    return call


class ChatStream(ReplyReader):
    """One reply as typed events. Iterate within a `with` block: leaving it closes the stream.

    Leaving early does not end the run, whose reply is saved in the conversation; `cancel` does. Entering
    raises what `chat` raises; iterating raises ChatError, StreamInterrupted and InvalidResponse, and repeats
    nothing.
    """

    def __init__(self, stream: ReplyReader) -> None:
        super().__init__(stream.sender, stream.call)
        self._each = iterate(self._events)

    def __enter__(self) -> Self:
        run(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return next(self._each)

    def cancel(self) -> None:
        """End the run: the stream then raises ChatError `cancelled`. Raises Conflict if it has ended."""
        run(self._cancel())

    def close(self) -> None:
        """Close the connection, whether or not the reply is complete."""
        run(self._close())


class AgentChat:
    """The blocking client for one key. Threads may share it; close it, or use it in a `with` block.

    `api_key`, `base_url` and `agent_id` default to AGENTCHAT_API_KEY, AGENTCHAT_BASE_URL, AGENTCHAT_AGENT_ID.
    `http_client` is for your own proxies or certificates; you close it. `user_id` is an end user, whose
    conversations alone this client then sees; clients of several users may share an `http_client`. Every
    method raises AgentChatError. A transient failure is retried first, at most `max_retries` times and within
    a minute.
    """

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        agent_id: str | None = None,
        user_id: str | None = None,
        max_retries: int = 2,
        timeouts: Timeouts | None = None,
        http_client: httpx.Client | None = None,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        async def sleep_blocking(seconds: float) -> None:
            sleep(seconds)

        self._owns_http = http_client is None
        self._http = BlockingHttp(http_client or httpx.Client(limits=LIMITS))
        self._client = AsyncAgentChat(
            api_key,
            base_url=base_url,
            agent_id=agent_id,
            user_id=user_id,
            max_retries=max_retries,
            timeouts=timeouts,
            http_client=self._http,
            sleep=sleep_blocking,
            clock=clock,
        )
        self.files = Files(self._client.files)

    def __repr__(self) -> str:
        return f"AgentChat({self._client.service})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._owns_http:
            run(self._http.aclose())

    chat = _make_blocking(AsyncAgentChat.chat, run)
    stream = _make_blocking(AsyncAgentChat.stream, ChatStream)
    events = _make_blocking(AsyncAgentChat.events, ChatStream)
    conversations = _make_blocking(AsyncAgentChat.conversations, iterate)
    conversation = _make_blocking(AsyncAgentChat.conversation, run)
    describe = _make_blocking(AsyncAgentChat.describe, run)
    fork = _make_blocking(AsyncAgentChat.fork, run)
    messages = _make_blocking(AsyncAgentChat.messages, iterate)
    delete = _make_blocking(AsyncAgentChat.delete, run)
    cancel = _make_blocking(AsyncAgentChat.cancel, run)
    approvals = _make_blocking(AsyncAgentChat.approvals, iterate)
    approval = _make_blocking(AsyncAgentChat.approval, run)
    decide = _make_blocking(AsyncAgentChat.decide, run)
    give_feedback = _make_blocking(AsyncAgentChat.give_feedback, run)
    feedback = _make_blocking(AsyncAgentChat.feedback, run)
    withdraw_feedback = _make_blocking(AsyncAgentChat.withdraw_feedback, run)
    create_webhook_endpoint = _make_blocking(AsyncAgentChat.create_webhook_endpoint, run)
    webhook_endpoints = _make_blocking(AsyncAgentChat.webhook_endpoints, iterate)
    webhook_endpoint = _make_blocking(AsyncAgentChat.webhook_endpoint, run)
    change_webhook_endpoint = _make_blocking(AsyncAgentChat.change_webhook_endpoint, run)
    delete_webhook_endpoint = _make_blocking(AsyncAgentChat.delete_webhook_endpoint, run)
    rotate_webhook_secret = _make_blocking(AsyncAgentChat.rotate_webhook_secret, run)
    test_webhook_endpoint = _make_blocking(AsyncAgentChat.test_webhook_endpoint, run)
    webhook_deliveries = _make_blocking(AsyncAgentChat.webhook_deliveries, iterate)
    resend_webhook_delivery = _make_blocking(AsyncAgentChat.resend_webhook_delivery, run)
