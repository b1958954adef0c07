"""One message and its reply on a terminal, from the send to the last line, with Ctrl-C in between."""

import asyncio
import time

from agentchat_client import (
    AgentChatError,
    AsyncChatStream,
    ChatError,
    Conflict,
    Delta,
    Event,
    MessageDone,
    Meta,
    PlanUpgradeRequired,
    Sources,
    Start,
    ToolCall,
)
from agentchat_client.api_calls import Form
from ops.chat.chat_approvals import decide
from ops.chat.chat_session import Session
from ops.chat.interrupts import Interrupts, quiet_keyboard
from ops.chat.screen import Screen
from ops.chat.writing import Writing
from ops.output import one_line

_CANCEL_SECONDS = 8.0
"""A cancelled run's stream usually ends within a second; after this time it is left."""


async def answer(session: Session, text: str, screen: Screen, interrupts: Interrupts) -> bool:
    """Send `text` and write the reply; whether it succeeded."""
    try:
        await _replied(session, text, screen, interrupts)
    except AgentChatError as error:
        if isinstance(error, ChatError) and error.code == "cancelled":
            screen.say("Stopped.")
        else:
            screen.fail(str(error))
    except _Left:
        screen.say("Left. The reply may still be written and saved: see /history.")
    else:
        return True
    return False


async def _replied(session: Session, text: str, screen: Screen, interrupts: Interrupts) -> None:
    form = session.form
    try:
        await _answered(session, text, form, screen, interrupts)
    except PlanUpgradeRequired:
        if form == 1 or session.chosen_form is not None:
            raise
        session.plan_lacks_form_2()
        screen.say("The plan has no form 2, which shows tools as they run; continuing with form 1.")
        await _answered(session, text, 1, screen, interrupts)


async def _answered(session: Session, text: str, form: Form, screen: Screen, interrupts: Interrupts) -> None:
    """Until the reply is complete, with the approvals that it needs."""
    client, reply = session.client, _Reply(session, screen)
    stream = client.stream(text, session.conversation_id, agent_id=session.agent.agent_id, form=form)
    while True:
        try:
            return await reply.read(stream, interrupts)
        except ChatError as error:
            if not error.approvals or error.trace_id is None:
                raise
            if not await decide(client, error.approvals, screen):
                raise
            stream = client.events(error.trace_id, form=form)


class _Left(Exception):  # noqa: N818 - an outcome
    """The reply was left before its end."""


class _Reply:
    """Reads a stream in a task of its own, which an interrupt can end.

    It counts what is on the screen: after an approval the stream is read again from its beginning.
    """

    def __init__(self, session: Session, screen: Screen) -> None:
        self._session = session
        self._screen = screen
        self._shown_characters = 0
        self._shown_calls = 0

    async def read(self, stream: AsyncChatStream, interrupts: Interrupts) -> None:
        """Raises AgentChatError, _Left."""
        began = time.monotonic()
        self._stream = stream
        self._read_characters = self._read_calls = 0
        self._writing = Writing(self._screen.console)
        self._opened = asyncio.Event()
        self._stopping: asyncio.Task[None] | None = None
        self._session.tools = ()
        self._session.sources = ()
        with quiet_keyboard():
            async with self._writing:
                self._reading = asyncio.create_task(self._read())
                with interrupts.during(self._interrupt):
                    await asyncio.wait((self._reading,))
                await self._end_stopping()
        if self._reading.cancelled():
            raise _Left
        self._reading.result()
        self._close(time.monotonic() - began)

    async def _read(self) -> None:
        async with self._stream as stream:
            self._opened.set()
            async for event in stream:
                self._take(event)

    def _take(self, event: Event) -> None:
        match event:
            case Meta() | Start():
                self._session.conversation_id = event.conversation_id
            case Delta():
                self._add(event.content)
            case ToolCall():
                self._call(event)
            case Sources():
                self._session.sources = event.sources
                self._writing.status(f"reading {len(event.sources)} passages")
            case MessageDone():
                self._session.tools = self._stream.tool_calls
            case _:
                pass

    def _add(self, text: str) -> None:
        new = text[max(0, self._shown_characters - self._read_characters) :]
        self._read_characters += len(text)
        if new:
            self._shown_characters = self._read_characters
            self._writing.add(new)

    def _call(self, event: ToolCall) -> None:
        self._read_calls += 1
        if self._read_calls > self._shown_calls:
            self._shown_calls = self._read_calls
            self._writing.call(event.name, event.input)

    def _interrupt(self) -> None:
        """The first time cancel the run and wait for its end; the second time leave it."""
        if self._stopping is None:
            self._writing.status("stopping; Ctrl-C again to leave it")
            self._stopping = asyncio.create_task(self._stop(self._reading))
        else:
            self._reading.cancel()

    async def _stop(self, reading: asyncio.Task[None]) -> None:
        """The run is known by the answer's X-Trace-Id, once it is accepted."""
        await self._opened.wait()
        assert self._stream.trace_id is not None
        try:
            await self._session.client.cancel(self._stream.trace_id)
        except Conflict:  # it has ended already: its last events are on their way
            pass
        except AgentChatError as error:
            self._screen.fail(f"The reply cannot be stopped: {error}")
            reading.cancel()
        await asyncio.wait((reading,), timeout=_CANCEL_SECONDS)
        reading.cancel()

    async def _end_stopping(self) -> None:
        if self._stopping is not None:
            self._stopping.cancel()
            await asyncio.wait((self._stopping,))

    def _close(self, seconds: float) -> None:
        """Sources and costs of the reply, below it."""
        if self._session.sources:
            self._screen.console.print()
            self._screen.sources(self._session.sources)
        parts = [f"{seconds:.1f} s"]
        if self._stream.message is not None:
            parts.insert(0, f"{self._stream.message.token_count:,} tokens")
        if tools := len(self._session.tools):
            parts.insert(0, f"{tools} tool {'call' if tools == 1 else 'calls'}, /tools shows more")
        self._screen.say(one_line(" · ".join(parts), 120))
