"""Both clients with one blocking interface, so that each test is written once for both."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from agentchat.client import (
    AgentChat,
    AgentChatError,
    AsyncAgentChat,
    AsyncChatStream,
    ChatStream,
    Delta,
    Event,
    File,
)
from agentchat.client.stream_reader import Transcript

KEY = "sk-ac-never-to-be-shown"
AGENT = "0192f0c1-0000-7000-8000-0000000000b1"


class Clock:
    """A clock that moves where somebody sleeps by it, or by `step` at every look; nobody really waits."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self._step = step

    def __call__(self) -> float:
        self.now += self._step
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@dataclass
class StreamResult:
    """The events of one stream, and its failure."""

    stream: Transcript
    events: list[Event] = field(default_factory=list)
    failure: AgentChatError | None = None
    cancelled: bool = False


class Driver:
    """The client's methods, each to its end; `read` reads a stream and returns its failure."""

    client: Any

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.client, name)
        return lambda *args, **options: self._done(method(*args, **options))

    def read(
        self, message: str, *, at_most: int = 1000, cancel: bool = False, **options: Any
    ) -> StreamResult:
        """Read a stream; with `cancel` the run is cancelled once its reply has begun."""
        return self._read(self.client.stream(message, **options), at_most, cancel)

    def upload(self, name: str, content: bytes) -> File:
        file: File = self._done(self.client.files.upload(name, content))
        return file

    def join(self, trace_id: str, last_event_id: str | None = None, **options: Any) -> StreamResult:
        return self._read(self.client.events(trace_id, last_event_id, **options), 1000, False)

    def close(self) -> None:
        raise NotImplementedError

    def _done(self, called: Any) -> Any:
        raise NotImplementedError

    def _read(self, opened: Any, at_most: int, cancel: bool) -> StreamResult:
        raise NotImplementedError


class SyncDriver(Driver):
    """`AgentChat` as it is."""

    def __init__(self, clock: Clock, **options: Any) -> None:
        self.client = AgentChat(sleep=clock.sleep, clock=clock, **options)

    def close(self) -> None:
        self.client.close()

    def _done(self, called: Any) -> Any:
        return list(called) if isinstance(called, Iterator) else called

    def _read(self, opened: ChatStream, at_most: int, cancel: bool) -> StreamResult:
        with opened as stream:
            result = StreamResult(stream)
            try:
                for event in stream:
                    result.events.append(event)
                    if cancel and isinstance(event, Delta) and not result.cancelled:
                        stream.cancel()
                        result.cancelled = True
                    if len(result.events) == at_most:
                        break
            except AgentChatError as error:
                result.failure = error
        return result


class AsyncDriver(Driver):
    """`AsyncAgentChat` on an event loop of its own."""

    def __init__(self, clock: Clock, **options: Any) -> None:
        async def sleep(seconds: float) -> None:
            clock.sleep(seconds)

        self._loop = asyncio.new_event_loop()
        try:
            self.client = AsyncAgentChat(sleep=sleep, clock=clock, **options)
        except AgentChatError:
            self._loop.close()
            raise

    def close(self) -> None:
        self._done(self.client.aclose())
        self._done(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _done(self, called: Any) -> Any:
        if isinstance(called, AsyncIterator):
            called = self._list(called)
        return self._loop.run_until_complete(asyncio.wait_for(called, 40))

    async def _list(self, items: AsyncIterator[Any]) -> list[Any]:
        return [item async for item in items]

    def _read(self, opened: AsyncChatStream, at_most: int, cancel: bool) -> StreamResult:
        async def read() -> StreamResult:
            async with opened as stream:
                result = StreamResult(stream)
                try:
                    async for event in stream:
                        result.events.append(event)
                        if cancel and isinstance(event, Delta) and not result.cancelled:
                            await stream.cancel()
                            result.cancelled = True
                        if len(result.events) == at_most:
                            break
                except AgentChatError as error:
                    result.failure = error
            return result

        result: StreamResult = self._done(read())
        return result


DRIVERS: dict[str, type[SyncDriver] | type[AsyncDriver]] = {"sync": SyncDriver, "async": AsyncDriver}
