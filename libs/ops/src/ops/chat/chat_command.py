"""`agentchat chat`: a chat on a terminal, one message, or one for each line of standard input."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import IO

from agentchat_client import Misconfigured
from agentchat_client.api_calls import Form
from ops.chat.chat_session import Session, find
from ops.chat.pipe import Pipe
from ops.errors import SetupError, StackError
from ops.output import INTERRUPTED, forget_stdout

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
    target = find(base_url, agent, os.environ)
    on_screen = sys.stdout.isatty() and not as_json and message != "-"
    on_screen = on_screen and (message is not None or sys.stdin.isatty())
    chosen: Form | None = None if form is None else 1 if form == 1 else 2
    try:
        if on_screen:
            session = Session(target, chosen, conversation, max_retries=0)  # a person decides about a retry
            return asyncio.run(_on_screen(session, message))
        session = Session(target, chosen or 1, conversation, max_retries=2)
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
