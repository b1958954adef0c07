"""The talk on a terminal: a prompt, a reply, a prompt."""

import asyncio
import contextlib

from ops.chat.interrupts import Interrupts, quiet_keyboard
from ops.chat.prompt import Prompt
from ops.chat.reply import answer
from ops.chat.safe import one_line
from ops.chat.screen import Screen
from ops.chat.session import Session
from ops.chat.slash import run
from ops.chat.target import Target


async def talk(session: Session, target: Target) -> None:
    """Until /quit or Ctrl-D."""
    screen = Screen()
    interrupts = Interrupts()
    prompt = Prompt(session, target.folder)
    screen.say(
        f"Asking {session.agent.name} at {session.base_url} (form {session.form}). /help, Ctrl-D leaves."
    )
    with interrupts.held(), quiet_keyboard():
        async with contextlib.aclosing(session):
            while (text := await _asked(prompt)) is not None:
                if not await _done(text, session, screen, interrupts):
                    return


async def one(session: Session, text: str) -> int:
    """A single message on a terminal; the exit code."""
    interrupts = Interrupts()
    with interrupts.held():
        async with contextlib.aclosing(session):
            return 0 if await answer(session, text, Screen(), interrupts) else 1


async def _asked(prompt: Prompt) -> str | None:
    try:
        return await prompt.ask()
    except EOFError:
        return None


async def _done(text: str, session: Session, screen: Screen, interrupts: Interrupts) -> bool:
    """False: the program is to end."""
    if not text:
        return True
    if text.startswith("/") and not text.startswith("//"):
        working = asyncio.create_task(run(text, session, screen))
        with interrupts.during(working.cancel):
            await asyncio.wait((working,))
        return working.cancelled() or working.result()
    message = text[1:] if text.startswith("//") else text
    screen.console.print()
    await answer(session, message, screen, interrupts)
    session.title = session.title or (one_line(message, 60) if session.conversation_id else None)
    screen.console.print()
    return True
