"""`agentchat chat`: on a terminal, for one message, or for each line of standard input (text or JSON)."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import IO

import msgspec

from agentchat_client import AgentChatError, AuthenticationFailed, Delta, Misconfigured
from ops.chat.chat_session import Session, find
from ops.errors import SetupError, StackError
from ops.output import INTERRUPTED, clean, forget_stdout, one_line

Messages = AsyncIterator[str]
Answer = Callable[[str], Awaitable[bool]]
"""Sends a message and writes the reply; whether it succeeded."""


def chat(
    *,
    message: str | None,
    base_url: str | None,
    agent: str | None,
    conversation: str | None,
    form: int | None,
    as_json: bool,
) -> int:
    """The exit code. Raises StackError, also for wrong settings."""
    session = find(base_url, agent, os.environ)
    session.conversation_id = conversation
    on_screen = sys.stdout.isatty() and not as_json and message != "-"
    on_screen = on_screen and (message is not None or sys.stdin.isatty())
    session.chosen_form = None if form is None else 1 if form == 1 else 2
    try:
        if on_screen:
            session.max_retries = 0  # a person decides about a retry
            return asyncio.run(_on_screen(session, message))
        session.chosen_form = session.chosen_form or 1
        return asyncio.run(_on_pipe(session, message, as_json=as_json))
    except Misconfigured as error:
        raise SetupError(str(error)) from None
    except BrokenPipeError:
        forget_stdout()
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


async def _on_screen(session: Session, message: str | None) -> int:
    from ops.chat.chat_reply import answer
    from ops.chat.interrupts import Interrupts, quiet_keyboard
    from ops.chat.prompt import typed
    from ops.chat.screen import Screen

    screen, interrupts = Screen(), Interrupts()
    reply = partial(answer, session, screen=screen, interrupts=interrupts)
    with interrupts.held():
        if message is not None:
            return await _all(session, _each([message]), reply)
        with quiet_keyboard():
            await _all(session, typed(session, screen, interrupts), reply)
    return 0


async def _on_pipe(session: Session, message: str | None, *, as_json: bool) -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it ends a read of standard input too
    texts: Iterator[str] = _lines(sys.stdin.buffer)
    if message is not None:
        texts = iter([_decoded(sys.stdin.buffer.read(), "the input") if message == "-" else message])
    return await _all(session, _each(texts), Pipe(session, as_json=as_json).answer)


async def _all(session: Session, messages: Messages, answer: Answer) -> int:
    """Answer each, also after a failure. The exit code."""
    failed = False
    async with contextlib.aclosing(session):
        async for message in messages:
            failed = not await answer(message) or failed
    return 1 if failed else 0


async def _each(texts: Iterator[str] | list[str]) -> Messages:
    for text in texts:
        yield text


def _lines(file: IO[bytes]) -> Iterator[str]:
    """Each line that is not blank. Raises StackError."""
    for number, line in enumerate(iter(file.readline, b""), 1):
        if text := _decoded(line, f"line {number} of the input"):
            yield text


def _decoded(data: bytes, where: str) -> str:
    try:
        return data.decode().strip()
    except UnicodeDecodeError:
        raise StackError(f"{where} is not UTF-8") from None


class Pipe:
    """All messages belong to one thread."""

    def __init__(self, session: Session, *, as_json: bool) -> None:
        self._session = session
        self._as_json = as_json

    async def answer(self, message: str) -> bool:
        """Whether it succeeded. Raises StackError, Misconfigured where every other message would fail too."""
        try:
            await (self._json(message) if self._as_json else self._text(message))
        except AuthenticationFailed as error:
            raise StackError(one_line(str(error), 600)) from None
        except Misconfigured:
            raise
        except AgentChatError as error:
            session = self._session
            session.conversation_id = session.conversation_id or getattr(error, "conversation_id", None)
            sys.stderr.write(f"agentchat: {one_line(str(error), 600)}\n")
            sys.stderr.flush()
            return False
        return True

    async def _json(self, message: str) -> None:
        """The reply as it was received; in ASCII, so that it cannot control a terminal."""
        session = self._session
        reply = await session.client.chat(message, session.conversation_id, agent_id=session.agent.agent_id)
        session.conversation_id = reply.conversation_id
        _write(json.dumps(msgspec.to_builtins(reply)) + "\n")

    async def _text(self, message: str) -> None:
        """Streamed text. Ctrl-C and a closed pipe also cancel the run."""
        session, written = self._session, False
        stream = session.client.stream(
            message, session.conversation_id, agent_id=session.agent.agent_id, form=session.form
        )
        async with stream:
            try:
                async for event in stream:
                    session.conversation_id = stream.conversation_id or session.conversation_id
                    if isinstance(event, Delta):
                        _write(clean(event.content))
                        written = True
            except BaseException as error:
                if written:
                    with contextlib.suppress(OSError):
                        _write("\n")
                if not isinstance(error, AgentChatError) and stream.trace_id:
                    with contextlib.suppress(AgentChatError):
                        await session.client.cancel(stream.trace_id)
                raise
        _write("\n")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
