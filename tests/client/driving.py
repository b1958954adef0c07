"""Both clients with one blocking interface, so that each test is written once for both."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from agentchat_client import (
    AgentChat,
    AgentChatError,
    AsyncAgentChat,
    AsyncChatStream,
    ChatStream,
    Conversation,
    Delta,
    Event,
    HistoryMessage,
    Reply,
)
from agentchat_client.transcript import Transcript

T = TypeVar("T")

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


class Driver(Protocol):
    """The client's methods, each to its end; `read` reads a stream and returns its failure."""

    @property
    def client(self) -> AgentChat | AsyncAgentChat: ...

    def chat(self, *args: Any, **options: Any) -> Reply: ...
    def read(self, message: str, *, at_most: int = 1000, **options: Any) -> StreamResult: ...
    def join(self, trace_id: str, last_event_id: str | None = None, **options: Any) -> StreamResult: ...
    def conversations(self, limit: int | None = None, **options: Any) -> list[Conversation]: ...
    def describe(self, conversation_id: str, **options: Any) -> Conversation: ...
    def fork(self, conversation_id: str, at: str | int | None = None) -> Conversation: ...
    def conversation(self, conversation_id: str) -> Conversation: ...
    def messages(self, conversation_id: str) -> list[HistoryMessage]: ...
    def cancel(self, trace_id: str) -> None: ...
    def decide(self, approval_id: str, decision: Any, **options: Any) -> None: ...
    def read_and_cancel(self, message: str, **options: Any) -> StreamResult: ...
    def close(self) -> None: ...


class SyncDriver:
    """`AgentChat` as it is."""

    def __init__(self, clock: Clock, **options: Any) -> None:
        self.client = AgentChat(sleep=clock.sleep, clock=clock, **options)

    def chat(self, *args: Any, **options: Any) -> Reply:
        return self.client.chat(*args, **options)

    def read(self, message: str, *, at_most: int = 1000, **options: Any) -> StreamResult:
        return self._result(self.client.stream(message, **options), at_most)

    def join(self, trace_id: str, last_event_id: str | None = None, **options: Any) -> StreamResult:
        return self._result(self.client.events(trace_id, last_event_id, **options), 1000)

    def _result(self, opened: ChatStream, at_most: int) -> StreamResult:
        with opened as stream:
            result = StreamResult(stream)
            try:
                for event in stream:
                    result.events.append(event)
                    if len(result.events) == at_most:
                        break
            except AgentChatError as error:
                result.failure = error
        return result

    def conversations(self, limit: int | None = None, **options: Any) -> list[Conversation]:
        return list(self.client.conversations(limit, **options))

    def describe(self, conversation_id: str, **options: Any) -> Conversation:
        return self.client.describe(conversation_id, **options)

    def fork(self, conversation_id: str, at: str | int | None = None) -> Conversation:
        return self.client.fork(conversation_id, at)

    def conversation(self, conversation_id: str) -> Conversation:
        return self.client.conversation(conversation_id)

    def messages(self, conversation_id: str) -> list[HistoryMessage]:
        return list(self.client.messages(conversation_id))

    def cancel(self, trace_id: str) -> None:
        self.client.cancel(trace_id)

    def decide(self, approval_id: str, decision: Any, **options: Any) -> None:
        self.client.decide(approval_id, decision, **options)

    def read_and_cancel(self, message: str, **options: Any) -> StreamResult:
        """Cancels the run once its reply has begun, and reads it to its end."""
        with self.client.stream(message, **options) as stream:
            result = StreamResult(stream)
            try:
                for event in stream:
                    result.events.append(event)
                    if isinstance(event, Delta) and not result.cancelled:
                        stream.cancel()
                        result.cancelled = True
            except AgentChatError as error:
                result.failure = error
        return result

    def close(self) -> None:
        self.client.close()


class AsyncDriver:
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

    def chat(self, *args: Any, **options: Any) -> Reply:
        return self._run(self.client.chat(*args, **options))

    def read(self, message: str, *, at_most: int = 1000, **options: Any) -> StreamResult:
        return self._run(self._result(self.client.stream(message, **options), at_most))

    def join(self, trace_id: str, last_event_id: str | None = None, **options: Any) -> StreamResult:
        return self._run(self._result(self.client.events(trace_id, last_event_id, **options), 1000))

    async def _result(self, opened: AsyncChatStream, at_most: int) -> StreamResult:
        async with opened as stream:
            result = StreamResult(stream)
            try:
                async for event in stream:
                    result.events.append(event)
                    if len(result.events) == at_most:
                        break
            except AgentChatError as error:
                result.failure = error
        return result

    def conversations(self, limit: int | None = None, **options: Any) -> list[Conversation]:
        async def listed() -> list[Conversation]:
            return [item async for item in self.client.conversations(limit, **options)]

        return self._run(listed())

    def describe(self, conversation_id: str, **options: Any) -> Conversation:
        return self._run(self.client.describe(conversation_id, **options))

    def fork(self, conversation_id: str, at: str | int | None = None) -> Conversation:
        return self._run(self.client.fork(conversation_id, at))

    def conversation(self, conversation_id: str) -> Conversation:
        return self._run(self.client.conversation(conversation_id))

    def messages(self, conversation_id: str) -> list[HistoryMessage]:
        async def listed() -> list[HistoryMessage]:
            return [item async for item in self.client.messages(conversation_id)]

        return self._run(listed())

    def cancel(self, trace_id: str) -> None:
        self._run(self.client.cancel(trace_id))

    def decide(self, approval_id: str, decision: Any, **options: Any) -> None:
        self._run(self.client.decide(approval_id, decision, **options))

    def read_and_cancel(self, message: str, **options: Any) -> StreamResult:
        return self._run(self._read_and_cancel(message, options))

    async def _read_and_cancel(self, message: str, options: dict[str, Any]) -> StreamResult:
        async with self.client.stream(message, **options) as stream:
            result = StreamResult(stream)
            try:
                async for event in stream:
                    result.events.append(event)
                    if isinstance(event, Delta) and not result.cancelled:
                        await stream.cancel()
                        result.cancelled = True
            except AgentChatError as error:
                result.failure = error
        return result

    def close(self) -> None:
        self._run(self.client.aclose())
        self._run(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(work, 40))


DRIVERS: dict[str, type[SyncDriver] | type[AsyncDriver]] = {"sync": SyncDriver, "async": AsyncDriver}
