"""The orchestrator's side of the bus, played by the test: it takes requests and says the frames."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import msgspec

from agentchat.bus.bus import Bus
from agentchat.bus.queue_consumer import QueueDelivery
from agentchat.contracts import events, frames, ids, messages, wire
from agentchat.contracts.values import Message

S = TypeVar("S", bound=msgspec.Struct)
Answers = Callable[[S], Awaitable[msgspec.Struct]] | msgspec.Struct


class Worker:
    """Takes every request off REQUESTS; `next` gives them out by their message, in order."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.stop = asyncio.Event()
        self._requests: dict[str, asyncio.Queue[messages.ChatRequested]] = {}

    async def run(self) -> None:
        await self.bus.queues.consume("REQUESTS", self._take, slots=100, stop=self.stop)

    async def next(self, message: str = "hi") -> "Turn":
        async with asyncio.timeout(30):
            return Turn(self.bus, await self._of(message).get())

    def count_untaken(self, message: str) -> int:
        """How many requests with this message nobody has asked for by `next`."""
        return self._of(message).qsize()

    @contextlib.asynccontextmanager
    async def answer_requests(
        self, subject: str, kind: type[S], answers: Answers[S]
    ) -> AsyncIterator[list[S]]:
        """Requests of a kind are answered so; yields those that come."""
        heard: list[S] = []

        async def answer(data: bytes) -> bytes:
            asked = msgspec.json.decode(data, type=kind)
            heard.append(asked)
            return wire.encode(answers if isinstance(answers, msgspec.Struct) else await answers(asked))

        serving = await self.bus.rpc.serve(subject, "test", answer)
        await self.bus.ping()  # the server knows of it now
        try:
            yield heard
        finally:
            await serving.close()

    def _of(self, message: str) -> asyncio.Queue[messages.ChatRequested]:
        return self._requests.setdefault(message, asyncio.Queue())

    async def _take(self, delivery: QueueDelivery) -> None:
        request = wire.decode_message(messages.ChatRequested, delivery.data)
        self._of(request.message).put_nowait(request)


class Turn:
    """One request and what the worker says to it. `seq` counts the frames of the attempt."""

    def __init__(self, bus: Bus, request: messages.ChatRequested) -> None:
        self.bus = bus
        self.request = request
        self.attempt = 1
        self.seq = 0
        self.text = ""
        self.tools: list[events.Event] = []

    async def say(self, frame: frames.Frame) -> None:
        await self.bus.traces.publish_frame(self.request.trace_id, frame)

    def number(self) -> int:
        self.seq += 1
        return self.seq

    async def accept(self) -> "Turn":
        conversation_id = self.request.conversation_id
        await self.say(
            frames.Accepted(seq=self.number(), attempt=self.attempt, conversation_id=conversation_id)
        )
        return self

    async def refuse(self, code: str, message: str = "no") -> None:
        await self.say(frames.Refused(seq=0, attempt=0, code=code, message=message))

    async def delta(self, text: str, *, lost: bool = False) -> None:
        """Say a piece of the reply; a `lost` one is counted but never sent."""
        frame = frames.DeltaFrame(
            seq=self.number(), attempt=self.attempt, round=1, text=text, offset=len(self.text)
        )
        self.text += text
        if not lost:
            await self.say(frame)

    async def tool(self, name: str, output: str) -> None:
        """Tell of a tool; its `output` is for the log alone, to which `stored.complete` writes it."""
        call_id, arguments = f"call-{self.seq}", {"id": 1}
        await self.say(
            frames.ToolCalledFrame(
                seq=self.number(),
                attempt=self.attempt,
                call_id=call_id,
                name=name,
                input=arguments,
                round=1,
            )
        )
        await self.say(
            frames.ToolReturnedFrame(seq=self.number(), attempt=self.attempt, call_id=call_id, is_error=False)
        )
        trace_id, at = self.request.trace_id, "2026-11-21T09:30:00.123456Z"
        self.tools += [
            events.ToolCalled(trace_id=trace_id, at=at, round=1, call_id=call_id, name=name, input=arguments),
            events.ToolReturned(
                trace_id=trace_id, at=at, round=1, call_id=call_id, output=output, is_error=False, ms=1
            ),
        ]

    async def resume(self, *, offset: int | None = None, text: str | None = None) -> None:
        """Another worker takes over after `text` (what was said so far)."""
        behind = self.text if text is None else text
        self.attempt, self.seq = self.attempt + 1, 0
        self.text = behind
        await self.say(
            frames.Resumed(
                seq=self.number(),
                attempt=self.attempt,
                conversation_id=self.request.conversation_id,
                offset=len(behind) if offset is None else offset,
                sha256=hashlib.sha256(behind.encode()).hexdigest(),
            )
        )

    def message(self, content: str | None = None) -> Message:
        return Message(
            id=ids.make_id(),
            conversation_id=self.request.conversation_id,
            content=self.text if content is None else content,
            token_count=42,
            created_at="2026-11-21T09:30:00.123456Z",
        )

    async def complete(self, content: str | None = None, *, tool_calls: int = 0) -> Message:
        message = self.message(content)
        await self.say(
            frames.Completed(seq=self.number(), attempt=self.attempt, message=message, tool_calls=tool_calls)
        )
        return message

    async def fail(self, code: str, message: str = "it failed") -> None:
        await self.say(frames.Failed(seq=self.number(), attempt=self.attempt, code=code, message=message))

    async def answer(self, text: str = "Hello there.") -> Message:
        """The whole of an untroubled reply."""
        await self.accept()
        return await self.answer_from_here(text)

    async def answer_from_here(self, text: str) -> Message:
        """The rest of an untroubled reply."""
        await self.delta(text)
        return await self.complete()
