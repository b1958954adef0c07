"""Send calls, retry them, and read their responses, for both clients: blocking calls never suspend."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import TypeVar

import httpx

from agentchat.client import responses
from agentchat.client.api_calls import LOST, ApiCall, ClientSettings, build_cancel_call, describe_loss
from agentchat.client.blocking import BlockingHttp
from agentchat.client.errors import AgentChatError, ApiError, ConnectionFailed, InvalidResponse, RateLimited
from agentchat.client.responses import ApiResponse
from agentchat.client.retries import Budget
from agentchat.client.stream_events import Event
from agentchat.client.stream_reader import Transcript

T = TypeVar("T")


class CallSender:
    """Sends calls and retries them."""

    def __init__(
        self,
        service: ClientSettings,
        http: httpx.AsyncClient | BlockingHttp,
        sleep: Callable[[float], Awaitable[object]],
    ) -> None:
        self._service = service
        self._http = http
        self._sleep = sleep

    def start_budget(self) -> Budget:
        """Start the time and the retries of a call."""
        return self._service.start_budget()

    async def fetch(self, call: ApiCall) -> ApiResponse:
        """Return the complete response. Raises ApiError, ConnectionFailed."""
        budget = self.start_budget()

        async def try_once() -> ApiResponse:
            response = await self._begin(call, budget)
            return ApiResponse(
                await _read_all(response, budget), response.headers.get(responses.TRACE_HEADER)
            )

        return await self._retry(try_once, budget, call)

    async def open(self, call: ApiCall, budget: Budget) -> httpx.Response:
        """Return a response whose body is still to be read. Raises ApiError, ConnectionFailed."""
        return await self._retry(lambda: self._begin(call, budget), budget, call)

    async def _begin(self, call: ApiCall, budget: Budget) -> httpx.Response:
        # No redirects: they would send the key to another server.
        response = await self._http.send(
            self._service.build_request(self._http, call),
            auth=self._service.key,
            stream=True,
            follow_redirects=False,
        )
        if response.is_success:
            return response
        raise responses.build_error(response.status_code, response.headers, await _read_all(response, budget))

    async def _retry(self, attempt: Callable[[], Awaitable[T]], budget: Budget, call: ApiCall) -> T:
        while True:
            failure: AgentChatError
            try:
                return await attempt()
            except ApiError as error:
                failure = error
            except LOST as error:
                failure = ConnectionFailed(describe_loss(error))
                failure.__cause__ = error
            if not (call.repeatable or isinstance(failure, RateLimited)):
                raise failure
            await self._sleep(budget.wait_after(failure))


async def _read_all(response: httpx.Response, budget: Budget) -> bytes:
    pieces = []
    async with contextlib.aclosing(response):
        async for piece in response.aiter_bytes():
            budget.check()
            pieces.append(piece)
    return b"".join(pieces)


class ReplyReader(Transcript):
    """Sends a call and reads its answer into the transcript; the base of both stream classes."""

    def __init__(self, sender: CallSender, call: ApiCall) -> None:
        super().__init__()
        self.sender = sender
        self.call = call
        self._budget = sender.start_budget()
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
        except LOST as error:
            raise self._build_interruption(describe_loss(error)) from error

    async def _cancel(self) -> None:
        if self.trace_id is None:
            raise InvalidResponse("The stream has not named its trace.")
        await self.sender.fetch(build_cancel_call(self.trace_id))

    async def _close(self) -> None:
        await self._events.aclose()
        if self._response is not None:
            await self._response.aclose()
