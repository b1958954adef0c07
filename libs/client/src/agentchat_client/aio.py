"""The client for asyncio. `agentchat_client.client` runs this implementation for blocking callers."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Literal, Self, TypeVar

import httpx
import msgspec

from agentchat_client import api_calls, responses
from agentchat_client.api_calls import Call, Form, Service
from agentchat_client.blocking import BlockingHttp
from agentchat_client.errors import AgentChatError, ApiError, ConnectionFailed, InvalidResponse
from agentchat_client.events import Event
from agentchat_client.models import Conversation, Feedback, HistoryMessage, Page, Reply
from agentchat_client.responses import ApiResponse
from agentchat_client.retries import Budget, Timeouts
from agentchat_client.transcript import Transcript

T = TypeVar("T")

_LARGEST_PAGE = 100


class AsyncAgentChat:
    """As `AgentChat`, for asyncio. Tasks may share it; close it, or use it in an `async with` block."""

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        agent_id: str | None = None,
        max_retries: int = 2,
        timeouts: Timeouts | None = None,
        http_client: httpx.AsyncClient | BlockingHttp | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.service = Service(
            api_key, base_url, agent_id, max_retries=max_retries, timeouts=timeouts, clock=clock
        )
        self._owns_http = http_client is None
        self._http = http_client or httpx.AsyncClient(limits=api_calls.LIMITS)
        self._sender = CallSender(self.service, self._http, sleep)

    def __repr__(self) -> str:
        return f"AsyncAgentChat({self.service})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._owns_http:
            await self._http.aclose()

    async def chat(
        self,
        message: str,
        conversation_id: str | None = None,
        prompt: str | None = None,
        *,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Reply:
        """As `AgentChat.chat`."""
        call = self.service.ask(message, conversation_id, prompt, agent_id, idempotency_key)
        return (await self._sender.fetch(call)).reply()

    def stream(
        self,
        message: str,
        conversation_id: str | None = None,
        prompt: str | None = None,
        *,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
        form: Form | None = None,
    ) -> "AsyncChatStream":
        """As `AgentChat.stream`; not awaited, but entered with `async with`."""
        call = self.service.ask(message, conversation_id, prompt, agent_id, idempotency_key)
        return AsyncChatStream(self._sender, api_calls.streamed(call, form))

    def events(
        self, trace_id: str, last_event_id: str | None = None, *, form: Form | None = None
    ) -> "AsyncChatStream":
        """As `AgentChat.events`."""
        return AsyncChatStream(self._sender, api_calls.events(trace_id, last_event_id, form))

    def conversations(
        self,
        limit: int | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        agent_id: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        title: str | None = None,
        rating: Literal["bad", "good"] | None = None,
    ) -> AsyncIterator[Conversation]:
        """As `AgentChat.conversations`, for `async for`."""
        query = api_calls.filters(metadata, agent_id, created_after, created_before, title, rating)
        return self._listed(Page[Conversation], "/v1/conversations", limit, query)

    async def conversation(self, conversation_id: str) -> Conversation:
        """As `AgentChat.conversation`."""
        return (await self._sender.fetch(api_calls.conversation(conversation_id))).value(Conversation)

    async def describe(
        self,
        conversation_id: str,
        *,
        title: str | msgspec.UnsetType | None = msgspec.UNSET,
        metadata: Mapping[str, str | None] | msgspec.UnsetType | None = msgspec.UNSET,
    ) -> Conversation:
        """As `AgentChat.describe`."""
        call = api_calls.describe(conversation_id, title, metadata)
        return (await self._sender.fetch(call)).value(Conversation)

    async def fork(self, conversation_id: str, at: str | int | None = None) -> Conversation:
        """As `AgentChat.fork`."""
        return (await self._sender.fetch(api_calls.fork(conversation_id, at))).value(Conversation)

    def messages(self, conversation_id: str) -> AsyncIterator[HistoryMessage]:
        """As `AgentChat.messages`, for `async for`."""
        return self._listed(Page[HistoryMessage], api_calls.messages_path(conversation_id))

    async def cancel(self, trace_id: str) -> None:
        """As `AgentChat.cancel`."""
        await self._sender.fetch(api_calls.cancel(trace_id))

    async def decide(
        self,
        approval_id: str,
        decision: Literal["approved", "denied"],
        *,
        input: dict[str, Any] | None = None,  # noqa: A002 - as the API has it
        reason: str | None = None,
    ) -> None:
        """As `AgentChat.decide`."""
        await self._sender.fetch(api_calls.decide(approval_id, decision, input, reason))

    async def give_feedback(
        self,
        message_id: str,
        score: float,
        *,
        label: str | None = None,
        comment: str | None = None,
        on_behalf_of: str | None = None,
    ) -> Feedback:
        """As `AgentChat.give_feedback`."""
        call = api_calls.give_feedback(message_id, score, label, comment, on_behalf_of)
        return (await self._sender.fetch(call)).value(Feedback)

    async def feedback(self, message_id: str) -> tuple[Feedback, ...]:
        """As `AgentChat.feedback`."""
        return (await self._sender.fetch(api_calls.feedback(message_id))).value(Page[Feedback]).data

    async def withdraw_feedback(self, message_id: str, on_behalf_of: str | None = None) -> None:
        """As `AgentChat.withdraw_feedback`."""
        await self._sender.fetch(api_calls.withdraw_feedback(message_id, on_behalf_of))

    async def _listed(
        self, kind: type[Page[T]], path: str, limit: int | None = None, query: dict[str, str] | None = None
    ) -> AsyncIterator[T]:
        query = dict(query or {})
        while limit is None or limit > 0:
            query["limit"] = str(_LARGEST_PAGE if limit is None else min(limit, _LARGEST_PAGE))
            page = (await self._sender.fetch(Call(method="GET", path=path, query=query))).value(kind)
            for item in page.data[:limit]:
                yield item
            if page.next_cursor is None:
                return
            query["cursor"] = page.next_cursor
            limit = None if limit is None else limit - len(page.data)


class ReplyReader(Transcript):
    """Sends a call and reads its answer into the transcript; the base of both stream classes."""

    def __init__(self, sender: "CallSender", call: Call) -> None:
        super().__init__()
        self.sender = sender
        self.call = call
        self._budget = sender.budget()
        self._response: httpx.Response | None = None
        self._events = self._read()

    async def _open(self) -> httpx.Response:
        if self._response is None:
            self._response = await self.sender.open(self.call, self._budget)
            self.trace_id = self._response.headers.get(responses.TRACE_HEADER)
        return self._response

    async def _read(self) -> AsyncGenerator[Event, None]:
        async with contextlib.aclosing(await self._open()) as response:
            responses.check_stream(response.headers)
            chunks = response.aiter_bytes()
            while not self.ended:
                for event in self._feed(await self._receive(chunks)):
                    yield event
            # Read to the end of the answer, so that the connection can be used again.
            with contextlib.suppress(httpx.RequestError):
                await anext(chunks, None)

    async def _receive(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        try:
            self._budget.check()
            return await anext(chunks, None)
        except api_calls.LOST as error:
            raise self._interrupted(api_calls.reason(error)) from error

    async def _cancel(self) -> None:
        if self.trace_id is None:
            raise InvalidResponse("The stream has not named its trace.")
        await self.sender.fetch(api_calls.cancel(self.trace_id))

    async def _close(self) -> None:
        await self._events.aclose()
        if self._response is not None:
            await self._response.aclose()


class AsyncChatStream(ReplyReader):
    """As `ChatStream`, to be iterated with `async for` within an `async with` block."""

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        return await anext(self._events)

    async def cancel(self) -> None:
        """As `ChatStream.cancel`."""
        await self._cancel()

    async def aclose(self) -> None:
        """Close the connection, whether or not the reply is complete."""
        await self._close()


class CallSender:
    """Sends calls and retries them."""

    def __init__(
        self,
        service: Service,
        http: httpx.AsyncClient | BlockingHttp,
        sleep: Callable[[float], Awaitable[object]],
    ) -> None:
        self._service = service
        self._http = http
        self._sleep = sleep

    def budget(self) -> Budget:
        return self._service.budget()

    async def fetch(self, call: Call) -> ApiResponse:
        """The complete answer. Raises ApiError, ConnectionFailed."""
        budget = self.budget()

        async def attempt() -> ApiResponse:
            response = await self._begin(call, budget)
            return ApiResponse(await _whole(response, budget), response.headers.get(responses.TRACE_HEADER))

        return await self._tried(attempt, budget)

    async def open(self, call: Call, budget: Budget) -> httpx.Response:
        """An answer whose body is not read yet. Raises ApiError, ConnectionFailed."""
        return await self._tried(lambda: self._begin(call, budget), budget)

    async def _begin(self, call: Call, budget: Budget) -> httpx.Response:
        # No redirects: they would send the key to another server.
        response = await self._http.send(
            self._service.request(self._http, call),
            auth=self._service.key,
            stream=True,
            follow_redirects=False,
        )
        if response.is_success:
            return response
        raise responses.refusal(response.status_code, response.headers, await _whole(response, budget))

    async def _tried(self, attempt: Callable[[], Awaitable[T]], budget: Budget) -> T:
        while True:
            failure: AgentChatError
            try:
                return await attempt()
            except ApiError as error:
                failure = error
            except api_calls.LOST as error:
                failure = ConnectionFailed(api_calls.reason(error))
                failure.__cause__ = error
            await self._sleep(budget.wait_after(failure))


async def _whole(response: httpx.Response, budget: Budget) -> bytes:
    pieces = []
    async with contextlib.aclosing(response):
        async for piece in response.aiter_bytes():
            budget.check()
            pieces.append(piece)
    return b"".join(pieces)
