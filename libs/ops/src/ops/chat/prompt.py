"""The prompt: with a stored history, input of several lines, and completion of commands."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.styles import Style

from ops.chat.chat_session import Session
from ops.chat.interrupts import Interrupts
from ops.chat.screen import Screen
from ops.chat.slash import COMMANDS, run
from ops.output import one_line

_FILE = "chat_history"
_STYLE = Style.from_dict({"bottom-toolbar": "noreverse dim", "prompt": "bold ansigreen"})


async def typed(session: Session, screen: Screen, interrupts: Interrupts) -> AsyncIterator[str]:
    """The messages, until /quit or Ctrl-D. Lines that are commands are run here."""
    prompt = _prompt(session)
    where = f"{session.agent.name} at {session.base_url} (form {session.form})"
    screen.say(f"Chatting with {where}. /help, Ctrl-D leaves.")
    while (text := await _next_line(prompt)) is not None:
        if text.startswith("/") and not text.startswith("//"):
            working = asyncio.create_task(run(text, session, screen))
            with interrupts.during(working.cancel):
                await asyncio.wait((working,))
            if not (working.cancelled() or working.result()):
                return
        elif text:
            message = text.removeprefix("/")
            screen.console.print()
            yield message
            session.title = session.title or (one_line(message, 60) if session.conversation_id else None)
            screen.console.print()


def _prompt(session: Session) -> "PromptSession[str]":
    def toolbar() -> str:
        thread = session.title or session.conversation_id or "new thread"
        return f" {one_line(session.agent.name, 40)} · form {session.form} · {one_line(thread, 60)} · /help"

    return PromptSession(
        FormattedText([("class:prompt", "> ")]),
        history=_history(session.folder),
        multiline=True,
        prompt_continuation="  ",
        key_bindings=_keys(),
        completer=_Commands(session),
        complete_while_typing=True,
        bottom_toolbar=toolbar,
        reserve_space_for_menu=4,
        style=_STYLE,
    )


async def _next_line(prompt: "PromptSession[str]") -> str | None:
    """Without white space around it; None at Ctrl-D."""
    with contextlib.suppress(EOFError):
        return (await prompt.prompt_async(handle_sigint=False)).strip()
    return None


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.reset()

    return keys


class _Commands(Completer):
    """Commands, and the names of agents after `/agent`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get_completions(self, document: Document, _: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        begun = text.removeprefix("/agent ")
        if begun != text:
            for agent in self._session.agents:
                if agent.name.startswith(begun):
                    yield Completion(agent.name, -len(begun))
            return
        for name, command in COMMANDS.items():
            if name.startswith(text):
                yield Completion(name, -len(text), display_meta=command.meaning)


def _history(folder: Path) -> History:
    """A file that only its owner can read; where it cannot be written, memory."""
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / _FILE
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        path.chmod(0o600)
        return FileHistory(path)
    return InMemoryHistory()
